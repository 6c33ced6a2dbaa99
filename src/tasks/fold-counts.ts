import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const BATCH = 10_000;

/** Adds up the rows of changes that statements have left, so that a queue's counts are the sum of few. */
export const foldCounts: Task = {
  name: 'fold-counts',
  every: 3_000,
  whenIdle: 10_000,
  run: async ({ database }: Engine) => {
    const [row] = await database.tasks.query<{ folded: number }>(FOLD, [BATCH]);
    return { counts: { folded: row!.folded }, again: row!.folded === BATCH };
  },
};

// Locks up to $1 rows, passing over those of another fold; rows are never updated, and new ones are not in the way. One
// statement, so that every snapshot sees either the rows or their sum. Reads all of queue_count, which this keeps at little
// more than one row for each queue.
const FOLD: Statement = {
  name: 'fold-counts',
  text: `with many as materialized (
  select queue_id from queue_count group by queue_id having count(*) > 1
),
folded as (
  delete from queue_count
  where ctid = any(array(
    select c.ctid from queue_count c
    where c.queue_id in (select queue_id from many)
    limit $1::int
    for update skip locked))
  returning *
),
sums as (
  insert into queue_count (queue_id, scheduled, ready, leased, dead, enqueued, completed, failed)
  select queue_id, sum(scheduled), sum(ready), sum(leased), sum(dead), sum(enqueued), sum(completed), sum(failed)
  from folded
  group by queue_id
)
select count(*)::int as folded from folded`,
};
