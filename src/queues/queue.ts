import { type Static, Type } from 'typebox';
import { Timestamp } from '../core/wire.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { RetryPolicy } from '../jobs/retry-policy.js';
import { JobCounts, NO_JOBS, readCounts } from './counts.js';
import { shownSettings } from './settings.js';

/** A queue with its settings in force and its counts. */
export const Queue = Type.Object({
  name: Type.String(),
  ...shownSettings,
  paused: Type.Boolean({ description: 'Nothing is leased from a paused queue; what is leased is settled as ever.' }),
  createdAt: Timestamp(),
  updatedAt: Timestamp({ description: 'When its settings last changed, or it was paused or resumed.' }),
  counts: JobCounts,
});
export type Queue = Static<typeof Queue>;

interface QueueRow {
  readonly id: number;
  readonly name: string;
  readonly visibilityTimeout: number;
  readonly maxAttempts: number;
  readonly retry: RetryPolicy;
  readonly maxLeaseDuration: number | null;
  readonly retainCompleted: number;
  readonly retainPayload: number | null;
  readonly retainDead: number;
  readonly idempotencyWindow: number;
  readonly maxPayloadBytes: number | null;
  readonly maxBacklog: number | null;
  readonly maxInFlight: number | null;
  readonly rateJobs: number | null;
  readonly ratePer: number | null;
  readonly deadLetterQueue: string | null;
  readonly paused: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The tenant's open queue of that name. Throws NOT_FOUND. */
export async function readQueue(
  connection: Pick<Connection, 'query'>,
  tenantId: string,
  name: string,
): Promise<{ id: number; queue: Queue }> {
  const [row] = await connection.query<QueueRow>(QUEUE_BY_NAME, [tenantId, name]);
  if (row === undefined) throw noSuchQueue();
  const counts = await readCounts(connection, [row.id]);
  return { id: row.id, queue: toQueue(row, counts) };
}

export interface QueuePage {
  readonly tenantId: string;
  readonly after: string;
  readonly limit: number;
  /** Names, and beginnings of names, of the queues that the caller may see; null for all. */
  readonly usable: readonly [names: readonly string[] | null, prefixes: readonly string[] | null];
}

/** Up to `limit` open queues of the tenant whose names come after `after`, in the order of their names. */
export async function readQueues(connection: Pick<Connection, 'query'>, page: QueuePage): Promise<Queue[]> {
  const rows = await connection.query<QueueRow>(QUEUES_BY_NAME, [
    page.tenantId,
    page.after,
    page.limit,
    ...page.usable,
  ]);
  const counts = await readCounts(
    connection,
    rows.map(({ id }) => id),
  );
  return rows.map((row) => toQueue(row, counts));
}

/** What a caller is told who names a queue that is not there, or no longer. */
export function noSuchQueue(field = 'queue'): ServiceError {
  return new ServiceError('NOT_FOUND', 'no such queue', { fields: [{ field, message: 'is not known' }] });
}

function toQueue({ id, rateJobs, ratePer, ...row }: QueueRow, counts: ReadonlyMap<number, JobCounts>): Queue {
  return {
    ...row,
    maxLeaseDuration: row.maxLeaseDuration ?? undefined,
    retainPayload: row.retainPayload ?? undefined,
    maxPayloadBytes: row.maxPayloadBytes ?? undefined,
    maxBacklog: row.maxBacklog ?? undefined,
    maxInFlight: row.maxInFlight ?? undefined,
    rateLimit: rateJobs === null || ratePer === null ? undefined : { jobs: rateJobs, per: ratePer },
    deadLetterQueue: row.deadLetterQueue ?? undefined,
    counts: counts.get(id) ?? NO_JOBS,
  };
}

// Reads only; the unique index queue_name serves both.
const QUEUE_BY_NAME: Statement = {
  name: 'queue-by-name',
  text: `select q.id, q.name, q.visibility_timeout as "visibilityTimeout", q.max_attempts as "maxAttempts", q.retry,
  q.max_lease_duration::float8 as "maxLeaseDuration", q.retain_completed::float8 as "retainCompleted",
  q.retain_payload::float8 as "retainPayload", q.retain_dead::float8 as "retainDead",
  q.idempotency_window::float8 as "idempotencyWindow", q.max_payload_bytes as "maxPayloadBytes",
  q.max_backlog::float8 as "maxBacklog", q.max_in_flight as "maxInFlight", q.rate_limit_jobs as "rateJobs",
  q.rate_limit_per::float8 as "ratePer", d.name as "deadLetterQueue", q.paused_at is not null as paused,
  (extract(epoch from q.created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from q.updated_at) * 1000000)::float8 as "updatedAt"
from queue q
left join queue d on d.id = q.dead_letter_queue_id
where q.tenant_id = $1::uuid and q.name = $2 and q.closed_at is null`,
};

const QUEUES_BY_NAME: Statement = {
  name: 'queues-by-name',
  text: `select q.id, q.name, q.visibility_timeout as "visibilityTimeout", q.max_attempts as "maxAttempts", q.retry,
  q.max_lease_duration::float8 as "maxLeaseDuration", q.retain_completed::float8 as "retainCompleted",
  q.retain_payload::float8 as "retainPayload", q.retain_dead::float8 as "retainDead",
  q.idempotency_window::float8 as "idempotencyWindow", q.max_payload_bytes as "maxPayloadBytes",
  q.max_backlog::float8 as "maxBacklog", q.max_in_flight as "maxInFlight", q.rate_limit_jobs as "rateJobs",
  q.rate_limit_per::float8 as "ratePer", d.name as "deadLetterQueue", q.paused_at is not null as paused,
  (extract(epoch from q.created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from q.updated_at) * 1000000)::float8 as "updatedAt"
from queue q
left join queue d on d.id = q.dead_letter_queue_id
where q.tenant_id = $1::uuid and q.name > $2 and q.closed_at is null
  and ($4::text[] is null or q.name = any($4::text[])
    or exists (select from unnest($5::text[]) as own(prefix) where starts_with(q.name, own.prefix)))
order by q.name
limit $3::int`,
};
