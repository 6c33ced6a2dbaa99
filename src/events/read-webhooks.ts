import type { Context } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { mayHandle, noSuchWebhook, type WebhookRow } from './webhook.js';

type Reader = Pick<Connection, 'query'>;

/** The tenant's webhook of that name, or undefined. */
export async function findWebhook(connection: Reader, tenantId: string, name: string): Promise<WebhookRow | undefined> {
  const [row] = await connection.query<WebhookRow>(BY_NAME, [tenantId, name]);
  return row;
}

/** The same. Throws NOT_FOUND, also when the caller may not use the queues that it tells of. */
export async function readWebhook(connection: Reader, context: Context<Engine>, name: string): Promise<WebhookRow> {
  const row = await findWebhook(connection, context.tenant.id, name);
  if (row === undefined || !mayHandle(context, row.queues)) throw noSuchWebhook();
  return row;
}

/** The same, its row locked until the transaction ends. */
export async function lockWebhook(connection: Connection, context: Context<Engine>, name: string): Promise<WebhookRow> {
  await connection.query(LOCK, [context.tenant.id, name]);
  return readWebhook(connection, context, name);
}

/** Up to `limit` webhooks of the tenant whose names come after `after`, in the order of their names. */
export async function readWebhooks(
  connection: Reader,
  tenantId: string,
  { after, limit }: { readonly after: string; readonly limit: number },
): Promise<WebhookRow[]> {
  return connection.query(LIST, [tenantId, after, limit]);
}

// Unique index on (tenant_id, name), as for all of these; the counts are sums over few rows of their queue (queue_count_queue).
const LOCK: Statement = {
  name: 'webhook-lock',
  text: `select id from webhook where tenant_id = $1::uuid and name = $2 for no key update`,
};

const BY_NAME: Statement = {
  name: 'webhook-by-name',
  text: `select w.id, w.name, w.queue_id as "queueId", w.url, w.events, w.queues, w.backlog_depth::float8 as "backlogDepth",
  w.backlog_age::float8 as "backlogAge", w.include_payload as "includePayload", w.max_in_flight as "maxInFlight", w.secret,
  case when w.previous_until > clock_timestamp() then w.previous_secret end as "previousSecret",
  (extract(epoch from case when w.previous_until > clock_timestamp() then w.previous_until end) * 1000000)::float8 as "previousUntil",
  w.paused_at is not null as paused, w.disabled_at is not null as disabled, w.failures,
  (extract(epoch from case when w.open_until > clock_timestamp() then w.open_until end) * 1000000)::float8 as "openUntil",
  w.dropped::float8 as dropped, w.last_error as "lastError", (extract(epoch from w.last_error_at) * 1000000)::float8 as "lastErrorAt",
  (extract(epoch from w.created_at) * 1000000)::float8 as "createdAt", (extract(epoch from w.updated_at) * 1000000)::float8 as "updatedAt",
  c.waiting, c.delivered, c.dead
from webhook w
cross join lateral (
  select coalesce(sum(scheduled + ready + leased), 0)::float8 as waiting, coalesce(sum(completed), 0)::float8 as delivered,
    coalesce(sum(dead), 0)::float8 as dead
  from queue_count
  where queue_count.queue_id = w.queue_id) c
where w.tenant_id = $1::uuid and w.name = $2`,
};

const LIST: Statement = {
  name: 'webhooks-by-name',
  text: `select w.id, w.name, w.queue_id as "queueId", w.url, w.events, w.queues, w.backlog_depth::float8 as "backlogDepth",
  w.backlog_age::float8 as "backlogAge", w.include_payload as "includePayload", w.max_in_flight as "maxInFlight", w.secret,
  case when w.previous_until > clock_timestamp() then w.previous_secret end as "previousSecret",
  (extract(epoch from case when w.previous_until > clock_timestamp() then w.previous_until end) * 1000000)::float8 as "previousUntil",
  w.paused_at is not null as paused, w.disabled_at is not null as disabled, w.failures,
  (extract(epoch from case when w.open_until > clock_timestamp() then w.open_until end) * 1000000)::float8 as "openUntil",
  w.dropped::float8 as dropped, w.last_error as "lastError", (extract(epoch from w.last_error_at) * 1000000)::float8 as "lastErrorAt",
  (extract(epoch from w.created_at) * 1000000)::float8 as "createdAt", (extract(epoch from w.updated_at) * 1000000)::float8 as "updatedAt",
  c.waiting, c.delivered, c.dead
from webhook w
cross join lateral (
  select coalesce(sum(scheduled + ready + leased), 0)::float8 as waiting, coalesce(sum(completed), 0)::float8 as delivered,
    coalesce(sum(dead), 0)::float8 as dead
  from queue_count
  where queue_count.queue_id = w.queue_id) c
where w.tenant_id = $1::uuid and w.name > $2
order by w.name
limit $3::int`,
};
