import type { Connections, Statement } from '../db/pool.js';

/** A webhook to which something may be delivered now. */
export interface Endpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly queueId: number;
  readonly url: string;
  readonly maxInFlight: number;
  /** The newest first. */
  readonly secrets: readonly string[];
  readonly hasFailed: boolean;
  /** The circuit has been open for its time: one delivery may be tried. */
  readonly isProbe: boolean;
}

const MOST = 500;

/** Up to 500 webhooks with deliveries that are ready, but for those named. */
export async function dueEndpoints(connections: Connections, except: readonly string[]): Promise<readonly Endpoint[]> {
  return (await connections.query<Row>(DUE, [except, MOST])).map(endpointOf);
}

/** That webhook as it is now; undefined when nothing may be delivered to it any more. */
export async function dueEndpoint(connections: Connections, id: string): Promise<Endpoint | undefined> {
  const [row] = await connections.query<Row>(STILL_DUE, [id]);
  return row === undefined ? undefined : endpointOf(row);
}

interface Row extends Omit<Endpoint, 'secrets'> {
  readonly secret: string;
  readonly previous: string | null;
}

function endpointOf({ secret, previous, ...row }: Row): Endpoint {
  return { ...row, secrets: previous === null ? [secret] : [secret, previous] };
}

// Reads only: all webhooks, and of each the few rows that its queue's counts are the sum of (queue_count_queue). Those that have not failed
// come first.
const DUE: Statement = {
  name: 'webhooks-due',
  text: `select w.id, w.tenant_id as "tenantId", w.queue_id as "queueId", w.url, w.max_in_flight as "maxInFlight", w.secret,
  case when w.previous_until > clock_timestamp() then w.previous_secret end as previous,
  w.failures > 0 as "hasFailed", w.open_until is not null as "isProbe"
from webhook w
join tenant t on t.id = w.tenant_id and t.suspended_at is null and t.closed_at is null
where w.paused_at is null and w.disabled_at is null and (w.open_until is null or w.open_until <= clock_timestamp())
  and w.id <> all($1::uuid[])
  and (select sum(c.ready) from queue_count c where c.queue_id = w.queue_id) > 0
order by w.failures, w.id
limit $2::int`,
};

const STILL_DUE: Statement = {
  name: 'webhook-still-due',
  text: `select w.id, w.tenant_id as "tenantId", w.queue_id as "queueId", w.url, w.max_in_flight as "maxInFlight", w.secret,
  case when w.previous_until > clock_timestamp() then w.previous_secret end as previous,
  w.failures > 0 as "hasFailed", false as "isProbe"
from webhook w
join tenant t on t.id = w.tenant_id and t.suspended_at is null and t.closed_at is null
where w.id = $1::uuid and w.paused_at is null and w.disabled_at is null and w.open_until is null`,
};
