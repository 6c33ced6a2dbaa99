import type { Statement } from '../db/pool.js';
import type { Task } from './runner.js';

const MOST = 2_000;

/**
 * Moves due jobs from `scheduled` to `ready`. Beside its regular turn the service runs it at the instant the next job is due:
 * each run says when that is, and the regular turns come closer together than the 2 s that `DueTimer` looks ahead.
 */
export const promoteDue: Task = {
  name: 'promote-due',
  every: 1_800,
  run: async ({ database, wakeups }) => {
    const rows = await database.tasks.query<{ queueId: number | null; promoted: number; next: number | null }>(
      PROMOTE,
      [MOST],
    );
    const promoted = rows.reduce((sum, row) => sum + row.promoted, 0);
    wakeups.ready(rows.flatMap(({ queueId }) => (queueId === null ? [] : [queueId])));
    const next = rows[0]?.next ?? null;
    if (next !== null && promoted < MOST) wakeups.scheduled(next);
    return { counts: { promoted }, again: promoted >= MOST };
  },
};

// Locks due rows in the order of the primary key of scheduled (due_at, job_id), skipping those that another instance promotes or a
// cancel or patch holds; any number may run at once. Purged rows are passed over: the queues' rows are locked for share first, in
// order, and with them comes their newest cut, so that a job never slips past a purge by its new pos. The next due time is read in the
// same snapshot.
const PROMOTE: Statement = {
  name: 'promote-due',
  text: `with clock as materialized (select clock_timestamp() as at),
wanted as materialized (
  select s.queue_id from scheduled s
  where s.due_at <= (select at from clock) and s.pos > (select q.cut from queue q where q.id = s.queue_id)
  order by s.due_at, s.job_id
  limit $1::int
),
queues as materialized (
  select q.id, q.cut from queue q
  where q.id = any(array(select distinct queue_id from wanted))
  order by q.id
  for share
),
due as materialized (
  select s.ctid as place from scheduled s
  join queues on queues.id = s.queue_id and s.pos > queues.cut
  where s.due_at <= (select at from clock)
  order by s.due_at, s.job_id
  limit $1::int
  for update of s skip locked
),
gone as (
  delete from scheduled where ctid = any(array(select place from due)) returning *
),
promoted as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, clock.at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended
  from clock, gone
  order by due_at, job_id
),
counted as (
  insert into queue_count (queue_id, scheduled, ready)
  select queue_id, -count(*), count(*) from gone group by queue_id
),
upcoming as materialized (
  select (extract(epoch from min(s.due_at)) * 1000000)::float8 as next from scheduled s where s.due_at > (select at from clock)
)
select g.queue_id as "queueId", count(g.queue_id)::int as promoted, u.next
from upcoming u
left join gone g on true
group by g.queue_id, u.next`,
};
