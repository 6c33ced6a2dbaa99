import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const BATCH = 1000;

/** Dead jobs of queues with a `deadLetterQueue` go on to it, ready, with attempts from 1. */
export const forwardDead: Task = {
  name: 'forward-dead',
  every: 5_000,
  run: async ({ database, wakeups }: Engine) => {
    const [row] = await database.tasks.query<{ moved: number; targets: number[] }>(FORWARD, [BATCH]);
    const { moved, targets } = row!;
    wakeups.ready(targets);
    return { counts: { forwarded: moved }, again: moved === BATCH };
  },
};

// Locks up to $1 rows of dead, passing over those that a redrive or deletion holds; what it deletes alone feeds what it inserts.
// A job without a body stays where it is. Indexes queue_dead_letter, dead_queue, primary keys.
const FORWARD: Statement = {
  name: 'forward-dead',
  text: `with clock as materialized (select clock_timestamp() as at),
chosen as materialized (
  select d.job_id, q.name as source, t.id as target_id
  from queue q
  join queue t on t.id = q.dead_letter_queue_id and t.closed_at is null
  join dead d on d.queue_id = q.id
  where q.dead_letter_queue_id is not null and q.closed_at is null
    and exists (select from job j where j.id = d.job_id)
  limit $1::int
  for update of d skip locked
),
taken as (
  delete from dead where job_id = any(array(select job_id from chosen)) returning *
),
moved as materialized (
  select t.*, c.source, c.target_id from taken t join chosen c on c.job_id = t.job_id
),
bodies as (
  update job
  set queue_id = m.target_id, expires_at = null, dead_from = m.source, dead_from_reason = m.reason
  from moved m
  where job.id = m.job_id
),
made_ready as (
  insert into ready (queue_id, rank, job_id, ready_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select m.target_id, m.rank, m.job_id, clock.at, m.lease_id, m.epoch, 0, m.releases, m.size, m.visibility_timeout, m.max_attempts, m.ended
  from moved m, clock
  order by m.ended_at, m.job_id
),
expiries as (
  delete from job_expiry
  where (expires_at, job_id) in (select expires_at, job_id from moved where expires_at is not null)
),
counted as (
  insert into queue_count (queue_id, dead, ready)
  select queue_id, -count(*), 0 from moved group by queue_id
  union all
  select target_id, 0, count(*) from moved group by target_id
)
select count(*)::int as moved, array(select distinct target_id from moved) as targets from moved`,
};
