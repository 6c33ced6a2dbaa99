import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

/**
 * Notes twice a minute how far the rising counters of a queue have come, from which its stats tell the rates. A queue in which
 * nothing happens is left alone once both marks say so.
 */
export const markRates: Task = {
  name: 'mark-rates',
  every: 10_000,
  run: async ({ database }: Engine) => {
    const [row] = await database.tasks.query<{ marked: number }>(MARK, []);
    return { counts: { marked: row!.marked } };
  },
};

// Locks the rows of queues whose counters have risen, in the order of their ids, passing over those that are being changed.
// One instance marks; another that comes at the same time finds the mark young and leaves it.
const MARK: Statement = {
  name: 'mark-rates',
  text: `with counters as materialized (
  select queue_id, array[sum(enqueued), sum(completed), sum(failed)]::bigint[] as now from queue_count group by queue_id
),
due as materialized (
  select q.id, c.now
  from queue q
  join counters c on c.queue_id = q.id
  where q.mark_at < clock_timestamp() - interval '30 seconds' and (q.mark <> c.now or q.earlier_mark <> c.now) and q.closed_at is null
  order by q.id
  for update of q skip locked
),
marked as (
  update queue
  set earlier_mark = mark, earlier_mark_at = mark_at, mark = due.now, mark_at = clock_timestamp()
  from due
  where queue.id = due.id
  returning queue.id
)
select count(*)::int as marked from marked`,
};
