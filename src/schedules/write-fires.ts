import { plainArray, textArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import { newJobId } from '../jobs/job-id.js';
import type { Plan } from './plan-fires.js';
import type { DueRow } from './read-due.js';

/** A schedule with what is to come of its look. */
export interface Planned {
  readonly row: DueRow;
  readonly queueId: number;
  readonly plan: Plan;
}

export interface Written {
  /** Jobs made. */
  readonly fired: number;
  readonly missed: number;
  readonly skipped: number;
  /** Schedules whose queue was closed or full. */
  readonly failed: number;
  readonly queueIds: readonly number[];
  /** Queues that are not open, or not any more. */
  readonly closedQueueIds: readonly number[];
}

/**
 * Makes the jobs and moves the schedules on, all in one statement. What was changed, fired or deleted since it was read stays as it is;
 * a schedule whose queue is closed or full fails alone.
 */
export async function writeFires(connections: Connections, planned: readonly Planned[]): Promise<Written> {
  const fires = planned.flatMap(({ row, plan }) =>
    plan.fires.map((at) => ({ scheduleId: row.id, at, jobId: newJobId() })),
  );
  const [row] = await connections.query<{ [K in keyof Written]: Written[K] | null }>(FIRE, [
    plainArray(planned.map((one) => one.row.id)),
    plainArray(planned.map((one) => one.row.revision)),
    plainArray(planned.map((one) => one.row.nextFire)),
    plainArray(planned.map((one) => one.plan.next)),
    plainArray(planned.map((one) => one.queueId)),
    plainArray(planned.map((one) => one.plan.missed)),
    plainArray(planned.map((one) => one.plan.skipped)),
    plainArray(fires.map((fire) => fire.scheduleId)),
    plainArray(fires.map((fire) => fire.at)),
    plainArray(fires.map((fire) => fire.jobId)),
  ]);
  return {
    fired: row!.fired ?? 0,
    missed: row!.missed ?? 0,
    skipped: row!.skipped ?? 0,
    failed: row!.failed ?? 0,
    queueIds: row!.queueIds ?? [],
    closedQueueIds: row!.closedQueueIds ?? [],
  };
}

export interface Failure {
  readonly row: DueRow;
  readonly error: string;
}

/** Notes why schedules cannot fire; they are looked at again after 5 s, then later and later, up to ten minutes. */
export async function writeFailures(connections: Connections, failures: readonly Failure[]): Promise<void> {
  await connections.query(FAIL, [
    plainArray(failures.map(({ row }) => row.id)),
    plainArray(failures.map(({ row }) => row.revision)),
    plainArray(failures.map(({ row }) => row.nextFire)),
    textArray(failures.map(({ error }) => error)),
  ]);
}

/** Schedules of tenants that are suspended are looked at again in a while; their instants stay as they are. */
export async function writeRests(connections: Connections, rows: readonly DueRow[]): Promise<void> {
  await connections.query(REST, [
    plainArray(rows.map(({ id }) => id)),
    plainArray(rows.map(({ revision }) => revision)),
    plainArray(rows.map(({ nextFire }) => nextFire)),
  ]);
}

// Locks the rows of those schedules that are as they were read (revision and next instant), in order of their ids, passing over those
// that somebody else writes just now: any number may run at once, and one of them fires. That a job, the instant in schedule_fire
// and the schedule's next instant commit together is what makes one job of one instant. Jobs are stored as an enqueue stores
// them. Rows of schedule_fire go after an hour. Primary keys of schedule, queue and schedule_fire; index queue_count_queue.
const FIRE: Statement = {
  name: 'schedules-fire',
  text: `with clock as materialized (select clock_timestamp() as at),
given as materialized (
  select g.id, g.revision, timestamptz 'epoch' + g.expected * interval '1 microsecond' as expected,
    timestamptz 'epoch' + g.next * interval '1 microsecond' as next, g.queue_id, coalesce(g.missed, 0) as missed,
    coalesce(g.skipped, 0) as skipped
  from unnest($1::uuid[], $2::int[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::int[])
    as g(id, revision, expected, next, queue_id, missed, skipped)
),
chosen as materialized (
  select s.id, s.tenant_id, s.name, s.kind, s.payload, s.content_type, s.is_json, s.headers, s.rank, s.size, s.max_attempts,
    s.visibility_timeout, s.retry, s.expires_after, g.next, g.queue_id, g.missed, g.skipped
  from given g
  join schedule s on s.id = g.id and s.revision = g.revision and s.next_fire_at = g.expected and s.paused_at is null
  order by s.id
  for update of s skip locked
),
wanted as materialized (
  select f.fire_at, f.job_id, f.ord, f.schedule_id, c.queue_id, row_number() over (partition by c.queue_id order by f.ord) as nth
  from (
    select schedule_id, timestamptz 'epoch' + fire_at * interval '1 microsecond' as fire_at, job_id, ord
    from unnest($8::uuid[], $9::bigint[], $10::uuid[]) with ordinality as u(schedule_id, fire_at, job_id, ord)) f
  join chosen c on c.id = f.schedule_id
),
used as materialized (
  select w.queue_id, q.max_backlog, q.id is null or q.closed_at is not null as closed, backlog.waiting
  from (select distinct queue_id from wanted) w
  left join queue q on q.id = w.queue_id
  left join lateral (
    select sum(c.scheduled + c.ready) as waiting from queue_count c
    where c.queue_id = q.id and q.max_backlog is not null) backlog on true
),
faulty as materialized (
  select w.schedule_id, bool_or(u.closed) as closed
  from wanted w
  join used u on u.queue_id = w.queue_id
  where u.closed or coalesce(u.waiting, 0) + w.nth > u.max_backlog
  group by w.schedule_id
),
recorded as (
  insert into schedule_fire (schedule_id, fire_at, job_id)
  select schedule_id, fire_at, job_id
  from wanted
  where not exists (select from faulty f where f.schedule_id = wanted.schedule_id)
  order by schedule_id, fire_at
  on conflict do nothing
  returning schedule_id, fire_at, job_id
),
item as materialized (
  select r.job_id as id, r.schedule_id, r.fire_at, w.ord, c.queue_id, c.kind, c.payload, c.content_type, c.is_json, c.rank, c.size,
    c.max_attempts, c.visibility_timeout, c.retry, clock.at, clock.at + c.expires_after * interval '1 millisecond' as expires_at,
    coalesce(left(c.headers, -1) || ',', '{') || '"stint-schedule":"' || c.name || '","stint-fire-at":"'
      || to_char(r.fire_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || '"}' as headers
  from clock, recorded r
  join wanted w on w.job_id = r.job_id
  join chosen c on c.id = r.schedule_id
),
body as (
  insert into job (id, queue_id, kind, payload, content_type, is_json, headers, priority, max_attempts, visibility_timeout, retry,
    expires_at, run_at, created_at)
  select id, queue_id, kind, payload, content_type, is_json, headers, -rank, max_attempts, visibility_timeout, retry, expires_at, at, at
  from item
),
ready_now as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, id, at, expires_at, 0, 0, 0, size, visibility_timeout, max_attempts, 'none'
  from item
  order by ord
),
expiring as (
  insert into job_expiry (expires_at, job_id)
  select expires_at, id from item where expires_at is not null
),
counted as (
  insert into queue_count (queue_id, ready, enqueued)
  select queue_id, count(*), count(*) from item group by queue_id
),
latest as materialized (
  select distinct on (schedule_id) schedule_id, fire_at, id as job_id from item order by schedule_id, fire_at desc
),
moved as (
  update schedule s
  set next_fire_at = c.next, look_at = c.next, last_fire_at = coalesce(l.fire_at, s.last_fire_at),
    last_job_id = coalesce(l.job_id, s.last_job_id), missed = s.missed + c.missed, skipped = s.skipped + c.skipped,
    failures = 0, error = null, error_at = null
  from chosen c
  left join latest l on l.schedule_id = c.id
  where s.id = c.id and not exists (select from faulty f where f.schedule_id = c.id)
  returning c.missed, c.skipped
),
failed as (
  update schedule s
  set failures = s.failures + 1, error_at = clock.at,
    error = case when f.closed then 'the queue was deleted' else 'the queue holds as many waiting jobs as its maxBacklog allows' end,
    look_at = clock.at + least(600, 5 * 2 ^ least(s.failures, 10)) * interval '1 second'
  from clock, faulty f
  where s.id = f.schedule_id
  returning s.id
),
forgotten as (
  delete from schedule_fire
  where schedule_id = any(array(select id from chosen)) and fire_at < (select at from clock) - interval '1 hour'
)
select (select count(*)::int from item) as fired, (select sum(missed)::int from moved) as missed,
  (select sum(skipped)::int from moved) as skipped, (select count(*)::int from failed) as failed,
  (select array_agg(distinct queue_id) from item) as "queueIds", (select array_agg(queue_id) from used where closed) as "closedQueueIds"`,
};

// Locks the schedules that are as they were read; may run beside everything. Primary key.
const FAIL: Statement = {
  name: 'schedules-fail',
  text: `update schedule s
set failures = s.failures + 1, error = g.error, error_at = clock_timestamp(),
  look_at = clock_timestamp() + least(600, 5 * 2 ^ least(s.failures, 10)) * interval '1 second'
from (
  select s.id, g.error
  from unnest($1::uuid[], $2::int[], $3::bigint[], $4::text[]) as g(id, revision, expected, error)
  join schedule s on s.id = g.id and s.revision = g.revision
    and s.next_fire_at = timestamptz 'epoch' + g.expected * interval '1 microsecond'
  order by s.id
  for update of s skip locked) g
where s.id = g.id`,
};

// As above.
const REST: Statement = {
  name: 'schedules-rest',
  text: `update schedule s
set look_at = clock_timestamp() + interval '30 seconds'
from (
  select s.id
  from unnest($1::uuid[], $2::int[], $3::bigint[]) as g(id, revision, expected)
  join schedule s on s.id = g.id and s.revision = g.revision
    and s.next_fire_at = timestamptz 'epoch' + g.expected * interval '1 microsecond'
  order by s.id
  for update of s skip locked) g
where s.id = g.id`,
};
