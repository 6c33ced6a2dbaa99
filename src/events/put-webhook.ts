import { type Static, Type } from 'typebox';
import { v7 } from 'uuid';
import { recordAct } from '../audit/record-act.js';
import { OWN_TENANT_ID } from '../core/names.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { QUEUE_SETTINGS } from './delivery-settings.js';
import { findWebhook, readWebhook } from './read-webhooks.js';
import { recordedName, recordedSetUp } from './recorded.js';
import { newSigningSecret } from './signing.js';
import {
  mayHandle,
  noSuchWebhook,
  shownWebhook,
  Webhook,
  webhookFields,
  webhookName,
  type WebhookRow,
} from './webhook.js';

const MOST_WEBHOOKS = 100;
const DEFAULT_IN_FLIGHT = 4;

const Input = Type.Object({ name: webhookName, ...webhookFields });
type Input = Static<typeof Input>;

export const putWebhook = defineOperation({
  name: 'PutWebhook',
  group: 'Events',
  summary: 'Create a webhook, or change it',
  description:
    'Says the whole of it: what is left out stands at its default. A new one answers 201 with its secret, which is shown here and ' +
    'never again. One that was disabled is enabled, and another URL closes the circuit.',
  scopes: ['manage'],
  http: [
    {
      method: 'PUT',
      path: '/v1/webhooks/:name',
      status: (output) => ((output as Webhook).secret === undefined ? 200 : 201),
      statuses: [200, 201],
    },
  ],
  input: Input,
  output: Webhook,
  example: { url: 'https://example.com/hooks/stint', events: ['job.dead'], queues: ['billing-*'] },
  run: async (context: Context<Engine>, input): Promise<Webhook> => {
    const { engine } = context;
    check(context, input);
    const { row, isNew } = await engine.database.ordinary.transaction((connection) => put(connection, context, input));
    engine.wakeups.changed(row.queueId);
    const shown = shownWebhook(row);
    return isNew ? { ...shown, secret: row.secret } : shown;
  },
});

function check(context: Context<Engine>, input: Input): void {
  const fault = context.engine.poster.faultIn(input.url);
  if (fault !== undefined) throw invalidField('url', fault);
  const isWatching = input.events.includes('queue.backlog');
  const { depth, oldestAge } = input.backlog ?? {};
  if (isWatching && depth === undefined && oldestAge === undefined) {
    throw invalidField('backlog', 'must say depth or oldestAge, since events holds queue.backlog');
  }
  if (!isWatching && input.backlog !== undefined) {
    throw invalidField('backlog', 'is for webhooks whose events hold queue.backlog');
  }
  if (mayHandle(context, input.queues ?? null)) return;
  const message = 'must be given, and within the queues that this key may use';
  throw new ServiceError('PERMISSION_DENIED', `queues ${message}`, { fields: [{ field: 'queues', message }] });
}

async function put(connection: Connection, context: Context<Engine>, input: Input) {
  const { tenant } = context;
  await connection.query(LOCK, [tenant.id]);
  const before = await findWebhook(connection, tenant.id, input.name);
  if (before !== undefined && !mayHandle(context, before.queues)) throw noSuchWebhook();
  const values = valuesOf(input);
  if (before === undefined) await create(connection, tenant.id, { values, isPaused: input.paused ?? false });
  else {
    await connection.query(CHANGE, [tenant.id, ...values, input.paused ?? null]);
    await connection.query(LIMIT_QUEUE, [before.queueId, input.maxInFlight ?? DEFAULT_IN_FLIGHT]);
    await connection.query(FORGET_ALERTS, [before.id]);
  }
  const after = await readWebhook(connection, context, input.name);
  await record(connection, context, { before, after });
  return { row: after, isNew: before === undefined };
}

function valuesOf(input: Input): unknown[] {
  return [
    input.name,
    input.url,
    input.events,
    input.queues ?? null,
    input.backlog?.depth ?? null,
    input.backlog?.oldestAge ?? null,
    input.includePayload ?? false,
    input.maxInFlight ?? DEFAULT_IN_FLIGHT,
  ];
}

async function create(
  connection: Connection,
  tenantId: string,
  { values, isPaused }: { readonly values: readonly unknown[]; readonly isPaused: boolean },
): Promise<void> {
  const [count] = await connection.query<{ webhooks: number }>(COUNT, [tenantId]);
  if (count!.webhooks >= MOST_WEBHOOKS) {
    throw new ServiceError('QUOTA_EXCEEDED', `a tenant may have ${MOST_WEBHOOKS} webhooks`, { retryAfter: 5 });
  }
  const id = v7();
  const settings = QUEUE_SETTINGS;
  const [queue] = await connection.query<{ id: number }>(MAKE_QUEUE, [
    OWN_TENANT_ID,
    id,
    settings.visibilityTimeout,
    settings.maxAttempts,
    settings.retry,
    settings.retainCompleted,
    settings.retainDead,
    settings.maxBacklog,
    values.at(-1),
  ]);
  await connection.query(CREATE, [tenantId, ...values, id, queue!.id, newSigningSecret(), isPaused]);
}

/** Into the audit log, unless all is as it was. */
async function record(
  connection: Connection,
  context: Context<Engine>,
  { before, after }: { readonly before: WebhookRow | undefined; readonly after: WebhookRow },
): Promise<void> {
  const shown = before === undefined ? undefined : recordedSetUp(before);
  const isSame = shown === recordedSetUp(after) && before?.url === after.url && before.disabled === after.disabled;
  if (isSame) return;
  const target = recordedName(after.name);
  await recordAct(connection, context, { action: 'PutWebhook', target, before: shown, after: recordedSetUp(after) });
}

// Whoever makes or changes a webhook of the tenant waits for who does it now. Nobody else waits for this lock.
const LOCK: Statement = {
  name: 'webhook-put-lock',
  text: `select pg_advisory_xact_lock(hashtextextended($1::text, 22))`,
};

// Walks the tenant's part of the unique index on (tenant_id, name).
const COUNT: Statement = {
  name: 'webhook-put-count',
  text: `select count(*)::int as webhooks from webhook where tenant_id = $1::uuid`,
};

const MAKE_QUEUE: Statement = {
  name: 'webhook-put-queue',
  text: `insert into queue (tenant_id, name, visibility_timeout, max_attempts, retry, retain_completed, retain_payload, retain_dead, max_backlog, max_in_flight)
values ($1::uuid, $2, $3::int, $4::int, $5::jsonb, $6::bigint, 0, $7::bigint, $8::bigint, $9::int)
returning id`,
};

// The foreign key waits for a deletion of the tenant that is under way, and fails after it.
const CREATE: Statement = {
  name: 'webhook-put-create',
  text: `insert into webhook (tenant_id, name, url, events, queues, backlog_depth, backlog_age, include_payload, max_in_flight, id, queue_id, secret, paused_at)
values ($1::uuid, $2, $3, $4::text[], $5::text[], $6::bigint, $7::bigint, $8::boolean, $9::int, $10::uuid, $11::int, $12, case when $13::boolean then clock_timestamp() end)`,
};

// Locks the webhook's row. A circuit that is open stays so, unless its endpoint is another now.
const CHANGE: Statement = {
  name: 'webhook-put-change',
  text: `update webhook
set url = $3, events = $4::text[], queues = $5::text[], backlog_depth = $6::bigint, backlog_age = $7::bigint,
  include_payload = $8::boolean, max_in_flight = $9::int, disabled_at = null,
  paused_at = case when $10::boolean is null then paused_at when $10::boolean then coalesce(paused_at, clock_timestamp()) end,
  failures = case when url = $3 then failures else 0 end,
  opened = case when url = $3 then opened else 0 end,
  open_until = case when url = $3 then open_until end,
  updated_at = clock_timestamp()
where tenant_id = $1::uuid and name = $2`,
};

const LIMIT_QUEUE: Statement = {
  name: 'webhook-put-limit',
  text: `update queue set max_in_flight = $2::int, updated_at = clock_timestamp() where id = $1::int and max_in_flight <> $2::int`,
};

// What it no longer watches is never told to have cleared.
const FORGET_ALERTS: Statement = {
  name: 'webhook-put-alerts',
  text: `delete from backlog_alert
where webhook_id = $1::uuid and not exists (
  select from webhook w, queue q
  where w.id = $1::uuid and q.id = backlog_alert.queue_id and 'queue.backlog' = any(w.events)
    and (w.queues is null or exists (
      select from unnest(w.queues) as pattern
      where case when right(pattern, 1) = '*' then starts_with(q.name, left(pattern, -1)) else q.name = pattern end)))`,
};
