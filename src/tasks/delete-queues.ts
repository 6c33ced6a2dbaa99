import type { Connections, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { settleClosing } from '../queues/closing.js';
import type { Task } from './runner.js';

const CHUNK = 5000;
const MOST_QUEUES = 20;

/**
 * Deletes what closed queues hold, a chunk of each a run, and then their rows: those go last, when every transaction that may
 * have begun before the queue was closed has ended, so that nothing is left behind. Also finishes deletions that an instance
 * began and did not live to finish.
 */
export function createDeleteQueues(): Task {
  // Database time, microseconds, at which a closed queue was first seen here: whoever began later sees it closed.
  const seenAt = new Map<number, number>();

  async function deleteChunk(connections: Connections, queueId: number): Promise<number> {
    const [chunk] = await connections.query<{ deleted: number }>(DELETE_CHUNK, [queueId, CHUNK]);
    if (chunk!.deleted === 0) await connections.query(DELETE_QUEUE, [queueId, seenAt.get(queueId)!]);
    return chunk!.deleted;
  }

  return {
    name: 'delete-queues',
    every: 10_000,
    run: async ({ database, wakeups }: Engine) => {
      const queues = await database.tasks.query<ClosedQueue>(CLOSED_QUEUES, [MOST_QUEUES]);
      const listed = new Set(queues.map(({ id }) => id));
      for (const id of seenAt.keys()) if (!listed.has(id)) seenAt.delete(id);
      let rows = 0;
      for (const { id, closing, now } of queues) {
        if (closing && !(await settleClosing(database.tasks, id))) {
          wakeups.changed(id);
          wakeups.ready([id]);
          continue;
        }
        if (!seenAt.has(id)) seenAt.set(id, now);
        rows += await deleteChunk(database.tasks, id);
      }
      return { counts: { rows }, again: rows > 0 };
    },
  };
}

interface ClosedQueue {
  readonly id: number;
  readonly closing: boolean;
  readonly now: number;
}

// Reads only; index queue_closed.
const CLOSED_QUEUES: Statement = {
  name: 'delete-queues-closed',
  text: `select id, closing, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now
from queue
where closed_at is not null and (not closing or closed_at < clock_timestamp() - interval '1 minute')
order by id
limit $1::int`,
};

// Locks up to $2 rows of each table, passing over those that a statement which began before the queue was closed still holds;
// bodies and attempts go by what that deleted. Indexes: ready's primary key, scheduled_queue, dead_queue, finished_queue; lease
// is small.
const DELETE_CHUNK: Statement = {
  name: 'delete-queues-chunk',
  text: `with gone_ready as (
  delete from ready
  where ctid = any(array(select ctid from ready where queue_id = $1::int limit $2::int for update skip locked))
  returning job_id
),
gone_scheduled as (
  delete from scheduled
  where ctid = any(array(select ctid from scheduled where queue_id = $1::int limit $2::int for update skip locked))
  returning job_id
),
gone_lease as (
  delete from lease
  where job_id = any(array(select job_id from lease where queue_id = $1::int limit $2::int for update skip locked))
  returning job_id
),
gone_dead as (
  delete from dead
  where job_id = any(array(select job_id from dead where queue_id = $1::int limit $2::int for update skip locked))
  returning job_id
),
gone_finished as (
  delete from finished
  where job_id = any(array(select job_id from finished where queue_id = $1::int limit $2::int for update skip locked))
  returning job_id
),
gone as materialized (
  select job_id from gone_ready
  union all select job_id from gone_scheduled
  union all select job_id from gone_lease
  union all select job_id from gone_dead
  union all select job_id from gone_finished
),
bodies as (
  delete from job where id = any(array(select job_id from gone)) returning id, expires_at
),
attempts as (
  delete from attempt where job_id = any(array(select job_id from gone))
),
expiries as (
  delete from job_expiry
  where (expires_at, job_id) in (select expires_at, id from bodies where expires_at is not null)
),
keys as (
  delete from idempotency
  where ctid = any(array(select ctid from idempotency where queue_id = $1::int limit $2::int for update skip locked))
  returning 1
)
select ((select count(*) from gone) + (select count(*) from keys))::int as deleted`,
};

// Locks the queue's row and deletes it with its counts, unless something is left or can still come.
const DELETE_QUEUE: Statement = {
  name: 'delete-queues-row',
  text: `with free as materialized (
  select id
  from queue
  where id = $1::int and closed_at is not null and not closing
    and not exists (select from ready where queue_id = $1::int)
    and not exists (select from scheduled where queue_id = $1::int)
    and not exists (select from lease where queue_id = $1::int)
    and not exists (select from dead where queue_id = $1::int)
    and not exists (select from finished where queue_id = $1::int)
    and not exists (select from idempotency where queue_id = $1::int)
    and not exists (
      select from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
        and xact_start <= timestamptz 'epoch' + $2::float8 * interval '1 microsecond')
),
counts as (
  delete from queue_count where queue_id = any(array(select id from free))
),
rate as (
  delete from queue_rate where queue_id = any(array(select id from free))
)
delete from queue where id = any(array(select id from free))`,
};
