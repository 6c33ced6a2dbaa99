import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration, Timestamp } from '../core/wire.js';
import type { Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { MAX_AHEAD_MS } from './enqueue-fields.js';
import { Job } from './job.js';
import { readJob, usable } from './read-jobs.js';

const TRIES = 5;

const Input = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    priority: Type.Optional(Type.Integer({ minimum: -1000, maximum: 1000, description: 'Higher goes first.' })),
    runAt: Type.Optional(Timestamp({ description: 'At most 366 days ahead; the past means now.' })),
    delay: Type.Optional(
      Duration({ minimum: 0, maximum: MAX_AHEAD_MS, description: 'In place of `runAt`: from now.' }),
    ),
  },
  { 'x-exclusive': [['runAt', 'delay']] },
);
type Input = Static<typeof Input>;

interface Moved {
  readonly queueId: number;
  /** Microseconds; null when the job is ready. */
  readonly dueAt: number | null;
}

/**
 * Changes a scheduled or ready job's priority, when it is due, or both. It goes to the tail of its priority. Throws
 * INVALID_ARGUMENT when nothing is to change or the job would expire before it is due, NOT_FOUND, and CONFLICT for a job in
 * any other state.
 */
export const updateJob = defineOperation({
  name: 'UpdateJob',
  group: 'Jobs',
  summary: 'Change the priority or the due time of a waiting job',
  description: 'Works on scheduled and ready jobs; a future `runAt` makes the job scheduled, a past one ready.',
  scopes: ['manage'],
  http: [{ method: 'PATCH', path: '/v1/jobs/:id' }],
  input: Input,
  output: Job,
  example: { priority: 10, delay: '5m' },
  run: async (context: Context<Engine>, input: Input): Promise<Job> => {
    const { engine } = context;
    checkInput(engine, input);
    const moved = await move(context, input);
    if (moved.dueAt === null) engine.wakeups.ready([moved.queueId]);
    else engine.wakeups.scheduled(moved.dueAt);
    return readJob(context, input.id);
  },
});

function checkInput(engine: Engine, { priority, runAt, delay }: Input): void {
  if (priority === undefined && runAt === undefined && delay === undefined) {
    throw invalidField('body', 'must give priority, runAt or delay');
  }
  if (runAt !== undefined && runAt > engine.clock.now() + MAX_AHEAD_MS * 1000) {
    throw invalidField('runAt', 'must be at most 366 days ahead');
  }
}

/** A job on its way from one table to the other may be missed by one try's snapshot; the next one sees it. */
async function move(context: Context<Engine>, input: Input): Promise<Moved> {
  const change = [input.priority ?? null, input.runAt ?? null, input.delay ?? null];
  const values = [input.id, context.tenant.id, ...change, ...usable(context)];
  for (let tries = 0; tries < TRIES; tries++) {
    const [moved] = await context.engine.database.ordinary.query<Moved>(MOVE, values);
    if (moved !== undefined) return moved;
    refuse(await readJob(context, input.id), input);
  }
  throw new ServiceError('UNAVAILABLE', 'the job keeps changing', { retryAfter: 1 });
}

/** Throws when the job as it stands cannot be changed in this way. */
function refuse(job: Job, { runAt, delay }: Input): void {
  if (job.state !== 'scheduled' && job.state !== 'ready') {
    throw new ServiceError('CONFLICT', `the job is ${job.state}: only scheduled and ready jobs can be changed`);
  }
  if (job.expiresAt !== undefined && (runAt !== undefined || delay !== undefined)) {
    throw invalidField(runAt === undefined ? 'delay' : 'runAt', 'must come to a time before the job’s expiresAt');
  }
}

// Locks the queue's row for share, so that a purge comes before or after and the job's new pos does not slip past it; locks the job's row in ready or scheduled (a claim passes it by, a promotion waits or is waited for) and its body. Served by
// the unique indexes on job_id and the primary keys of job and queue; `offset 0` keeps the plan from walking all the queues
// of the tenant.
const MOVE: Statement = {
  name: 'job-update',
  text: `with clock as materialized (select clock_timestamp() as at),
wish as materialized (
  select at, case
    when $4::float8 is not null then greatest(at, timestamptz 'epoch' + $4::float8 * interval '1 microsecond')
    when $5::float8 is not null then at + $5::float8 * interval '1 millisecond' end as due
  from clock),
owned as materialized (
  select j.id, q.id as queue_id, q.cut
  from job j
  cross join lateral (select * from queue where queue.id = j.queue_id for share) q
  where j.id = $1::uuid and q.tenant_id = $2::uuid and q.closed_at is null
    and ($6::text[] is null or q.name = any($6::text[])
      or exists (select from unnest($7::text[]) as own(prefix) where starts_with(q.name, own.prefix)))),
from_ready as (
  delete from ready
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and pos > (select cut from owned)
    and coalesce(expires_at > (select due from wish), true)
  returning *),
from_scheduled as (
  delete from scheduled
  where job_id = (select id from owned)
    and queue_id = (select queue_id from owned)
    and pos > (select cut from owned)
    and coalesce(expires_at > (select due from wish), true)
  returning *),
moved as materialized (
  select r.queue_id, 'ready' as was, coalesce(-$3::smallint, r.rank) as rank, r.job_id, coalesce(w.due, w.at) as due_at,
    coalesce(w.due > w.at, false) as waits, r.ready_at, r.expires_at, r.lease_id, r.epoch, r.attempt, r.releases, r.size,
    r.visibility_timeout, r.max_attempts, r.ended
  from from_ready r, wish w
  union all
  select s.queue_id, 'scheduled', coalesce(-$3::smallint, s.rank), s.job_id, coalesce(w.due, s.due_at),
    coalesce(w.due, s.due_at) > w.at, w.at, s.expires_at, s.lease_id, s.epoch, s.attempt, s.releases, s.size,
    s.visibility_timeout, s.max_attempts, s.ended
  from from_scheduled s, wish w),
to_ready as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size,
    visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size,
    visibility_timeout, max_attempts, ended
  from moved
  where not waits),
to_scheduled as (
  insert into scheduled (queue_id, rank, job_id, due_at, expires_at, lease_id, epoch, attempt, releases, size,
    visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, due_at, expires_at, lease_id, epoch, attempt, releases, size,
    visibility_timeout, max_attempts, ended
  from moved
  where waits),
body as (
  update job
  set priority = -moved.rank, run_at = case when wish.due is null then job.run_at else wish.due end
  from moved, wish
  where job.id = $1::uuid and job.id = moved.job_id),
counted as (
  insert into queue_count (queue_id, ready, scheduled)
  select queue_id, case when waits then -1 else 1 end, case when waits then 1 else -1 end
  from moved
  where waits = (was = 'ready'))
select queue_id as "queueId", case when waits then (extract(epoch from due_at) * 1000000)::float8 end as "dueAt"
from moved`,
};
