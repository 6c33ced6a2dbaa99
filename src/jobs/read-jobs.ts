import type { Context } from '../core/operation.js';
import type { Connections, Statement } from '../db/pool.js';
import { plainArray } from '../db/literals.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { type Job, type JobRow, toJob } from './job.js';

/** What of a job to read beside what every answer shows. */
export interface Include {
  readonly payload: boolean;
  readonly result: boolean;
  /** How many of the latest attempts, up to 100. */
  readonly attempts: number;
}

export interface JobPage {
  readonly jobs: readonly Job[];
  /** How many of the ids the jobs cover; the rest did not fit. */
  readonly covered: number;
}

const EVERYTHING: Include = { payload: true, result: true, attempts: 100 };
const PAGE_BYTES = 3 * 1024 * 1024;
const ATTEMPT_BYTES = 512 * 1024;

/**
 * Reads jobs of a tenant, in the order of the ids; ids that are not the tenant's are passed over. Stops at 3 MiB of
 * variable parts once it has one job.
 */
export async function readJobs(
  connections: Connections,
  tenantId: string,
  ids: readonly string[],
  include: Include,
): Promise<JobPage> {
  if (ids.length === 0) return { jobs: [], covered: 0 };
  const rows = await connections.query<JobRow>(READ, [
    plainArray(ids),
    tenantId,
    include.payload,
    include.result,
    include.attempts,
    PAGE_BYTES,
    Math.min(ATTEMPT_BYTES, PAGE_BYTES / ids.length),
  ]);
  const last = rows.at(-1);
  return {
    jobs: rows.map((row) => toJob(row, include.attempts > 0)),
    covered: last === undefined || rows.length === last.found ? ids.length : last.ordinal,
  };
}

/**
 * Reads one job with all that belongs to it.
 *
 * @throws ServiceError NOT_FOUND, the same whether there is no such job, it is another tenant's, or the caller may not use its queue
 */
export async function readJob(context: Context<Engine>, id: string): Promise<Job> {
  const { jobs } = await readJobs(context.engine.database.ordinary, context.tenant.id, [id], EVERYTHING);
  if (jobs[0] === undefined || !context.mayUse(jobs[0].queue)) throw new ServiceError('NOT_FOUND', 'no such job');
  return jobs[0];
}

/**
 * Which queues the caller may use, as two parameters of a statement: whole names and beginnings of names; null for all. Compared
 * within the statement, since a job may go to another queue between a look and the act.
 */
export function usable({
  caller,
}: Context<Engine>): [names: readonly string[] | null, prefixes: readonly string[] | null] {
  return [caller.queues?.names ?? null, caller.queues?.prefixes ?? null];
}

// Locks nothing; one snapshot, in which a job stands in exactly one table. Each id is a handful of look-ups on primary
// keys and unique indexes; without `offset 0` the view is joined as a whole and its tables are scanned, and so are all the
// queues of the tenant. Large values are detoasted only for the jobs that fit.
const READ: Statement = {
  name: 'jobs-read',
  text: `with found as (
  select w.ordinal, count(*) over () as found,
    s.job_id, s.state, s.rank, s.attempt, s.releases, s.cancel_requested, s.worker, s.epoch, s.started_at, s.lease_expires_at,
    s.progress, s.ended_at, s.result, s.reason, s.due_at,
    q.name as queue, q.max_attempts as queue_max_attempts, q.retry as queue_retry, q.visibility_timeout as queue_visibility_timeout,
    j.id as body_id, j.kind, j.payload, j.is_json, j.content_type, j.headers, j.max_attempts, j.retry, j.visibility_timeout,
    j.idempotency_key, j.created_at, j.run_at, j.expires_at, j.dead_from, j.dead_from_reason,
    e.attempt as error_attempt, e.outcome as error_outcome, e.error, h.attempts,
    sum(512 + coalesce(octet_length(j.headers), 0) + coalesce(octet_length(s.progress), 0) + coalesce(octet_length(e.error), 0)
      + case when $3::boolean then coalesce(octet_length(j.payload), 0) else 0 end
      + case when $4::boolean then coalesce(octet_length(s.result), 0) else 0 end
      + coalesce(h.bytes, 0)) over (order by w.ordinal) as bytes
  from unnest($1::uuid[]) with ordinality as w(id, ordinal)
  cross join lateral (select * from job_state where job_state.job_id = w.id offset 0) s
  cross join lateral (select * from queue where queue.id = s.queue_id offset 0) q
  left join job j on j.id = s.job_id
  left join lateral (
    select a.attempt, a.outcome, a.error
    from attempt a
    where a.job_id = s.job_id and (a.error is not null or a.outcome = 'expired')
    order by a.epoch desc
    limit 1) e on true
  left join lateral (
    select sum(a.size) as bytes,
      json_agg(json_build_object('attempt', a.attempt, 'epoch', a.epoch, 'worker', a.worker, 'outcome', a.outcome, 'error', a.error,
        'startedAt', (extract(epoch from a.started_at) * 1000000)::float8,
        'endedAt', (extract(epoch from a.ended_at) * 1000000)::float8) order by a.epoch) as attempts
    from (
      select latest.*, sum(latest.size) over (order by latest.epoch desc) as total
      from (
        select a.*, 512 + coalesce(octet_length(a.error), 0) as size
        from attempt a
        where a.job_id = s.job_id
        order by a.epoch desc
        limit $5::int) latest) a
    where a.total <= $7::float8 or a.total = a.size) h on true
  where q.tenant_id = $2::uuid and q.closed_at is null
    and (s.state not in ('completed', 'cancelled') or s.ended_at > clock_timestamp() - q.retain_completed * interval '1 millisecond')
)
select ordinal::float8 as "ordinal", found::float8 as "found",
  job_id as "id", queue, state, body_id is not null as "hasBody", kind,
  case when $3::boolean and is_json then convert_from(payload, 'UTF8') end as "payload",
  case when $3::boolean and not is_json then payload end as "payloadBytes",
  content_type as "contentType", headers, rank, attempt,
  coalesce(max_attempts, queue_max_attempts) as "maxAttempts",
  coalesce(retry, queue_retry) as "retry",
  coalesce(visibility_timeout, queue_visibility_timeout) as "visibilityTimeout",
  idempotency_key as "idempotencyKey",
  (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from coalesce(due_at, run_at)) * 1000000)::float8 as "runAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt",
  releases, cancel_requested as "cancelRequested", worker, epoch,
  (extract(epoch from started_at) * 1000000)::float8 as "startedAt",
  (extract(epoch from lease_expires_at) * 1000000)::float8 as "leaseExpiresAt",
  progress,
  (extract(epoch from ended_at) * 1000000)::float8 as "endedAt",
  case when $4::boolean then convert_from(result, 'UTF8') end as "result",
  reason, dead_from as "deadFrom", dead_from_reason as "deadFromReason",
  error_attempt as "errorAttempt", error_outcome as "errorOutcome", error, attempts
from found
where bytes <= $6::float8 or ordinal = (select min(ordinal) from found)
order by ordinal`,
};
