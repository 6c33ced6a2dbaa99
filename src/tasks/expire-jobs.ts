import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const BATCH = 1000;

/**
 * Waiting jobs past their `expiresAt` die. A leased one goes on, and its nack or expiry minds the instant itself; but a nack
 * that ran just before it puts the job back, so the task looks again until the job waits, is dead or has finished.
 */
export const expireJobs: Task = {
  name: 'expire-jobs',
  every: 4_000,
  run: async ({ database, endings }: Engine) => {
    const [row] = await database.tasks.query<{ due: number; died: string[] }>(EXPIRE, [BATCH]);
    const { due, died } = row!;
    endings.ended(died);
    return { counts: { expired: died.length }, again: due === BATCH };
  },
};

// Locks up to $1 rows of job_expiry in the order of their instants (primary key), then the jobs' places in the order of their
// ids, passing over what others hold: a claim, cancel or promotion that holds a place wins, and the job is looked at again 5 s
// later. Purged rows are left to the purge.
const EXPIRE: Statement = {
  name: 'expire-jobs',
  text: `with clock as materialized (select clock_timestamp() as at),
due as materialized (
  select e.expires_at, e.job_id
  from job_expiry e
  where e.expires_at <= (select at from clock)
  order by e.expires_at
  limit $1::int
  for update skip locked
),
from_ready as (
  delete from ready
  where job_id = any(array(
    select r.job_id from ready r
    where r.job_id = any(array(select job_id from due)) and r.expires_at <= (select at from clock)
      and r.pos > (select q.cut from queue q where q.id = r.queue_id)
    order by r.job_id
    for update skip locked))
  returning *
),
from_scheduled as (
  delete from scheduled
  where job_id = any(array(
    select s.job_id from scheduled s
    where s.job_id = any(array(select job_id from due)) and s.expires_at <= (select at from clock)
      and s.pos > (select q.cut from queue q where q.id = s.queue_id)
    order by s.job_id
    for update skip locked))
  returning *
),
died as materialized (
  select 'ready' as place, job_id, expires_at, lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, ended
  from from_ready
  union all
  select 'scheduled', job_id, expires_at, lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, ended
  from from_scheduled
),
made_dead as (
  insert into dead (job_id, ended_at, expires_at, lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, reason, ended)
  select d.job_id, clock.at, d.expires_at, d.lease_id, d.queue_id, d.epoch, d.attempt, d.releases, d.size, d.visibility_timeout,
    d.max_attempts, d.rank, 'expired', d.ended
  from died d, clock
),
counted as (
  insert into queue_count (queue_id, ready, scheduled, dead, failed)
  select queue_id, -count(*) filter (where place = 'ready'), -count(*) filter (where place = 'scheduled'), count(*), count(*)
  from died
  group by queue_id
),
left_over as materialized (
  select d.expires_at, d.job_id,
    exists (select from lease l where l.job_id = d.job_id) or exists (select from ready r where r.job_id = d.job_id)
      or exists (select from scheduled s where s.job_id = d.job_id) as stands
  from due d
  where d.job_id not in (select job_id from died)
),
postponed as (
  update job_expiry
  set expires_at = clock.at + interval '5 seconds'
  from clock
  where (job_expiry.expires_at, job_expiry.job_id) in (select expires_at, job_id from left_over where stands)
),
done as (
  delete from job_expiry
  where (expires_at, job_id) in (
    select d.expires_at, d.job_id from due d where d.job_id not in (select job_id from left_over where stands))
)
select (select count(*) from due)::int as due, array(select job_id from died) as died`,
};
