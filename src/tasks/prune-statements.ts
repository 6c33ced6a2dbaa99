import type { Statement } from '../db/pool.js';

// All of these pass over rows that another instance's run holds. The queue's retention is read as it is now; what a closed
// queue holds is left to its deletion.

// Locks up to $1 rows of finished, the oldest of each queue first (index finished_queue); the bodies and attempts go by what
// that deleted.
export const PRUNE_FINISHED: Statement = {
  name: 'prune-finished',
  text: `with chosen as materialized (
  select f.job_id
  from queue q
  cross join lateral (
    select job_id
    from finished
    where queue_id = q.id
      and ended_at < clock_timestamp() - greatest(q.retain_completed, 600000) * interval '1 millisecond'
    order by ended_at
    limit $1::int
    for update skip locked) f
  where q.closed_at is null
  limit $1::int
),
gone as (
  delete from finished where job_id = any(array(select job_id from chosen)) returning job_id
),
bodies as (
  delete from job where id = any(array(select job_id from gone))
),
attempts as (
  delete from attempt where job_id = any(array(select job_id from gone))
)
select count(*)::int as pruned from gone`,
};

// Locks up to $1 rows of job, then the rows of their queues, which note how far this has come, so that the next run does not
// pass over the same finished rows again (index finished_queue). The note stays ten seconds behind now: a job's end may commit a
// little later than its instant says, which matters only where bodies are kept for less.
export const PRUNE_BODIES: Statement = {
  name: 'prune-bodies',
  text: `with chosen as materialized (
  select q.id as queue_id, f.job_id, f.ended_at
  from queue q
  cross join lateral (
    select job_id, ended_at
    from finished
    where queue_id = q.id and ended_at > q.bodies_pruned_to
      and ended_at < clock_timestamp() - least(q.retain_payload, q.retain_completed) * interval '1 millisecond'
      and exists (select from job where job.id = finished.job_id)
    order by ended_at
    limit $1::int) f
  where q.closed_at is null and least(q.retain_payload, q.retain_completed) < greatest(q.retain_completed, 600000)
  limit $1::int
),
gone as (
  delete from job
  where id = any(array(select j.id from job j where j.id = any(array(select job_id from chosen)) order by j.id for update skip locked))
  returning id
),
progress as (
  select queue_id, least(max(ended_at) - interval '1 microsecond', clock_timestamp() - interval '10 seconds') as pruned_to
  from chosen
  group by queue_id
),
noted as (
  update queue
  set bodies_pruned_to = p.pruned_to
  from progress p
  where queue.id = p.queue_id and queue.bodies_pruned_to < p.pruned_to
    and queue.id = any(array(select q.id from queue q where q.id = any(array(select queue_id from progress)) order by q.id for update skip locked))
)
select count(*)::int as pruned from gone`,
};

// Locks up to $1 rows of dead, the oldest of each queue first (index dead_queue); everything else of a job goes by what that
// deleted.
export const PRUNE_DEAD: Statement = {
  name: 'prune-dead',
  text: `with chosen as materialized (
  select d.job_id
  from queue q
  cross join lateral (
    select job_id
    from dead
    where queue_id = q.id and ended_at < clock_timestamp() - q.retain_dead * interval '1 millisecond'
    order by ended_at
    limit $1::int
    for update skip locked) d
  where q.closed_at is null
  limit $1::int
),
gone as (
  delete from dead where job_id = any(array(select job_id from chosen)) returning job_id, queue_id
),
bodies as (
  delete from job where id = any(array(select job_id from gone))
),
attempts as (
  delete from attempt where job_id = any(array(select job_id from gone))
),
counted as (
  insert into queue_count (queue_id, dead)
  select queue_id, -count(*) from gone group by queue_id
)
select count(*)::int as pruned from gone`,
};

// Looks at up to $4 expired keys from a place on (index idempotency_expiry; ties of one instant are broken by queue and key) and
// locks those it deletes. A key that an enqueue is just taking over is passed over.
export const PRUNE_KEYS: Statement = {
  name: 'prune-keys',
  text: `with examined as materialized (
  select i.queue_id, i.key, i.expires_at, i.job_id
  from idempotency i
  where i.expires_at >= timestamptz 'epoch' + $1::float8 * interval '1 microsecond' and i.expires_at <= clock_timestamp()
    and (i.expires_at, i.queue_id, i.key) > (timestamptz 'epoch' + $1::float8 * interval '1 microsecond', $2::int, $3::text)
  order by i.expires_at, i.queue_id, i.key
  limit $4::int
),
over as (
  select e.*
  from examined e
  where not exists (select from ready r where r.job_id = e.job_id)
    and not exists (select from scheduled s where s.job_id = e.job_id)
    and not exists (select from lease l where l.job_id = e.job_id)
),
gone as (
  delete from idempotency
  where ctid = any(array(
    select i.ctid
    from idempotency i
    join over o on o.queue_id = i.queue_id and o.key = i.key and o.job_id = i.job_id
    where i.expires_at <= clock_timestamp()
    order by i.queue_id, i.key
    for update of i skip locked))
  returning queue_id
)
select (select count(*) from gone)::int as keys, (select count(*) from examined)::int as examined,
  (select json_build_object('expiresAt', (extract(epoch from expires_at) * 1000000)::float8, 'queueId', queue_id, 'key', key)
  from examined
  order by expires_at desc, queue_id desc, key desc
  limit 1) as last`,
};
