import type { Connections, Statement } from '../db/pool.js';
import type { DatabaseClock } from './clock.js';
import type { QueueDirectory } from './queue-directory.js';
import { stretchParameters } from './stretches.js';
import type { Waiters } from './waiters.js';

export interface PollParts {
  readonly connections: Connections;
  readonly waiters: Waiters;
  readonly queues: QueueDirectory;
  readonly clock: DatabaseClock;
}

/**
 * The backstop of wake-ups: one statement for all queues that somebody waits for, one more for names that do not exist yet.
 * Also reads the database's clock, with nothing else to ask.
 */
export async function poll({ connections, waiters, queues, clock }: PollParts): Promise<void> {
  const { queueIds, unknown } = waiters.waitedFor();
  if (unknown.length > 0) waiters.appeared(await queues.findMany(unknown));
  const begun = waiters.version();
  const rows = await connections.query<PollRow>(WORK, [queueIds, ...stretchParameters(waiters.whereToLook(queueIds))]);
  clock.observe(rows[0]!.now);
  const open = new Set(rows.map(({ queueId }) => queueId));
  waiters.queuesChanged(queueIds.filter((id) => !open.has(id)));
  waiters.polled(
    queueIds,
    rows.flatMap(({ queueId, work }) => (work === true ? [queueId!] : [])),
    begun,
  );
}

interface PollRow {
  readonly queueId: number | null;
  readonly work: boolean | null;
  readonly now: number;
}

// A primary key look-up for each queue, and one probe of ready's primary key for each of its stretches.
const WORK: Statement = {
  name: 'poll-work',
  text: `with work as (
  select q.id, q.paused_at is null and exists (
    select from generate_series(waited.first, waited.last) as n
    cross join lateral (
      select from ready r
      where r.queue_id = q.id and (r.rank, r.pos) > (($4::smallint[])[n], ($5::bigint[])[n]) and r.rank < ($6::smallint[])[n]
        and r.pos > q.cut and (r.expires_at is null or r.expires_at > clock_timestamp())
      limit 1) row_found) as work
  from unnest($1::int[], $2::int[], $3::int[]) as waited(queue_id, first, last)
  join queue q on q.id = waited.queue_id and q.closed_at is null)
select work.id as "queueId", work.work, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now
from (select 1) as always
left join work on true`,
};
