import { type By, writeEvent } from '../audit/record-act.js';
import type { Connection, Connections, Statement } from '../db/pool.js';
import { recordedQueue } from './recorded.js';

/*
 * A delete that is not forced must not lose a job that is enqueued at the same time. An enqueue looks at the queue's mark
 * in its own snapshot, so one that began before the mark was committed may still put a job in. Hence:
 *
 * 1. The queue, empty, is marked closed and `closing`: gone for readers, its name not free. This commits.
 * 2. Wait until every transaction that began before that has ended. Whoever begins later sees the mark.
 * 3. One statement looks again: empty, and the name becomes free and the rows go in the background; or not, and the queue is
 *    open again as if nothing had been.
 *
 * When the instance dies between 1 and 3, the task that deletes queues takes step 3 a minute later. Step 1 leaves who deletes with
 * the queue, so that whoever takes step 3 can write it into the audit log.
 */

/** Who deletes a queue, and how it was before. */
export interface ClosingAct {
  readonly by: By;
  readonly name: string;
  readonly before: string;
}

/** True while a transaction of this database that began at or before that instant (microseconds) has not ended. */
export async function hasOlderTransactions(connection: Pick<Connection, 'query'>, micros: number): Promise<boolean> {
  const [row] = await connection.query<{ older: boolean }>(OLDER, [micros]);
  return row!.older;
}

/** Step 3. Answers whether the queue is deleted, which is then in the audit log; false when it was opened again. */
export async function settleClosing(connections: Connections, queueId: number): Promise<boolean> {
  return connections.transaction(async (connection) => {
    const [row] = await connection.query<{ deleted: boolean; act: ClosingAct | null }>(SETTLE, [queueId]);
    if (row?.deleted === true && row.act !== null) {
      const { by, name, before } = row.act;
      await writeEvent(connection, by, { action: 'DeleteQueue', target: recordedQueue(name), before, refused: false });
    }
    return row?.deleted ?? true;
  });
}

// A transaction's start is reported before it takes its first snapshot. Sessions of other roles show only to a member of
// pg_read_all_stats; the service's own show always.
const OLDER: Statement = {
  name: 'older-transactions',
  text: `select exists (
  select from pg_stat_activity
  where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
    and xact_start <= timestamptz 'epoch' + $1::float8 * interval '1 microsecond') as older`,
};

// Locks the queue's row. Nobody inserts any more, but for step 2's sake; jobs that end meanwhile only make it emptier.
// The primary keys of ready and dead_queue, scheduled_queue; lease is small.
const SETTLE: Statement = {
  name: 'queue-settle-closing',
  text: `with found as materialized (
  select q.id, exists (select from ready r where r.queue_id = q.id and r.pos > q.cut)
    or exists (select from scheduled s where s.queue_id = q.id and s.pos > q.cut)
    or exists (select from lease l where l.queue_id = q.id)
    or exists (select from dead d where d.queue_id = q.id) as standing, q.closing_act as act
  from queue q
  where q.id = $1::int and q.closing
)
update queue
set closing = false, closing_act = null,
  closed_at = case when found.standing then null else queue.closed_at end,
  dead_letter_queue_id = case when found.standing then queue.dead_letter_queue_id end
from found
where queue.id = found.id and queue.closing
returning not found.standing as deleted, found.act`,
};
