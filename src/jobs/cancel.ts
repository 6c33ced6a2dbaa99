import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { Job } from './job.js';
import { readJob, usable } from './read-jobs.js';

const TRIES = 5;

const Input = Type.Object({
  id: Type.String({ format: 'uuid' }),
  force: Type.Optional(
    Type.Boolean({ description: 'Cancels a leased job at once; its holder is told LEASE_LOST. False unless given.' }),
  ),
});

/**
 * Cancels a scheduled or ready job, or one whose lease has run out, at once. Of a leased one it sets `cancelRequested`, unless
 * `force` is given. Cancelling a cancelled job changes nothing. Throws NOT_FOUND, and CONFLICT for a job that is completed
 * or dead.
 */
export const cancelJob = defineOperation({
  name: 'CancelJob',
  group: 'Jobs',
  summary: 'Cancel a job',
  description:
    'A waiting job is cancelled at once. A leased one is marked: heartbeats tell its worker, an ack still completes it, ' +
    'anything else makes it cancelled.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/jobs/:id/cancel' }],
  input: Input,
  output: Job,
  example: { force: true },
  run: async (context: Context<Engine>, input: Static<typeof Input>): Promise<Job> => {
    const id = input.id.toLowerCase();
    if (await cancel(context, { id, force: input.force ?? false })) context.engine.endings.ended([id]);
    return readJob(context, id);
  },
});

/** Answers whether the job ended by it. A job on its way between tables may be missed by one try; the next one sees it. */
async function cancel(context: Context<Engine>, job: { id: string; force: boolean }): Promise<boolean> {
  const { ordinary } = context.engine.database;
  const values = [job.id, context.tenant.id, job.force, ...usable(context)];
  for (let tries = 0; tries < TRIES; tries++) {
    const [done] = await ordinary.query<{ cancelled: boolean }>(CANCEL, values);
    if (done !== undefined) return done.cancelled;
    const { state } = await readJob(context, job.id);
    if (state === 'cancelled') return false;
    if (state === 'completed' || state === 'dead') {
      throw new ServiceError('CONFLICT', `the job is ${state} and cannot be cancelled`);
    }
  }
  throw new ServiceError('UNAVAILABLE', 'the job keeps changing', { retryAfter: 1 });
}

// Locks the job's row in ready, scheduled or lease: a claim passes it by, a settle or heartbeat waits or is waited for. The
// two writes to lease exclude each other by the one reading of the clock. Served by the indexes on job_id and
// the primary keys of job and queue; `offset 0` keeps the plan from walking all the queues of the tenant.
const CANCEL: Statement = {
  name: 'job-cancel',
  text: `with clock as materialized (select clock_timestamp() as at),
owned as materialized (
  select j.id, q.id as queue_id, q.cut
  from job j
  cross join lateral (select * from queue where queue.id = j.queue_id offset 0) q
  where j.id = $1::uuid and q.tenant_id = $2::uuid and q.closed_at is null
    and ($4::text[] is null or q.name = any($4::text[])
      or exists (select from unnest($5::text[]) as own(prefix) where starts_with(q.name, own.prefix)))),
from_ready as (
  delete from ready
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and pos > (select cut from owned)
  returning *),
from_scheduled as (
  delete from scheduled
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and pos > (select cut from owned)
  returning *),
from_lease as (
  delete from lease
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and ($3::boolean or lease_expires_at <= (select at from clock))
  returning *, case when lease_expires_at <= (select at from clock) then 'expired' else 'cancelled' end::lease_end as outcome),
marked as (
  update lease
  set cancel_requested = true
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and not $3::boolean
    and lease_expires_at > (select at from clock)
  returning job_id),
ended as materialized (
  select job_id, null::timestamptz as started_at, lease_id, queue_id, epoch, attempt, releases, rank, ended, null::text as worker,
    1 as ready, 0 as scheduled, 0 as leased
  from from_ready
  union all
  select job_id, null, lease_id, queue_id, epoch, attempt, releases, rank, ended, null, 0, 1, 0
  from from_scheduled
  union all
  select job_id, leased_at, lease_id, queue_id, epoch, attempt, releases, rank, outcome, worker, 0, 0, 1
  from from_lease),
cancelled as (
  insert into finished (job_id, started_at, ended_at, lease_id, queue_id, epoch, attempt, releases, rank, state, ended, worker)
  select job_id, started_at, clock.at, lease_id, queue_id, epoch, attempt, releases, rank, 'cancelled', ended, worker
  from ended, clock),
history as (
  insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome, worker)
  select job_id, epoch, attempt, lease_id, leased_at, clock.at, outcome, worker
  from from_lease, clock),
counted as (
  insert into queue_count (queue_id, ready, scheduled, leased)
  select queue_id, -ready, -scheduled, -leased
  from ended)
select true as "cancelled"
from ended
union all
select false
from marked`,
};
