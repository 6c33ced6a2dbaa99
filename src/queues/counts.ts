import { type Static, Type } from 'typebox';
import type { Connection, Statement } from '../db/pool.js';

/** Jobs of a queue by state, exact as of the last commit. */
export const JobCounts = Type.Object({
  scheduled: Type.Integer(),
  ready: Type.Integer(),
  leased: Type.Integer(),
  dead: Type.Integer(),
});
export type JobCounts = Static<typeof JobCounts>;

export const NO_JOBS: JobCounts = { scheduled: 0, ready: 0, leased: 0, dead: 0 };

/** The exact counts of the queues, by id, without jobs that are purged and wait to be deleted. */
export async function readCounts(
  connection: Pick<Connection, 'query'>,
  queueIds: readonly number[],
): Promise<Map<number, JobCounts>> {
  if (queueIds.length === 0) return new Map();
  const rows = await connection.query<JobCounts & { queueId: number }>(COUNTS, [queueIds]);
  return new Map(rows.map(({ queueId, ...counts }) => [queueId, counts]));
}

// Reads only. The sum of the changes is exact at every snapshot (index queue_count_queue). While a purge is under way the
// changes still hold its rows, so that those beyond the cut are counted instead: of ready lane by lane in the primary key,
// where purged rows come first and are not touched; of scheduled by the index scheduled_queue.
const COUNTS: Statement = {
  name: 'queue-counts',
  text: `select q.id as "queueId",
  (case when q.cut = 0 then changes.scheduled else (
    select count(*) from scheduled s where s.queue_id = q.id and s.pos > q.cut) end)::float8 as scheduled,
  (case when q.cut = 0 then changes.ready else (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = q.id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = q.id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select coalesce(sum(jobs.n), 0)
    from lane
    cross join lateral (
      select count(*) as n from ready r where r.queue_id = q.id and r.rank = lane.rank and r.pos > q.cut) jobs) end
  )::float8 as ready,
  changes.leased::float8 as leased,
  changes.dead::float8 as dead
from queue q
cross join lateral (
  select coalesce(sum(c.scheduled), 0) as scheduled, coalesce(sum(c.ready), 0) as ready,
    coalesce(sum(c.leased), 0) as leased, coalesce(sum(c.dead), 0) as dead
  from queue_count c
  where c.queue_id = q.id) changes
where q.id = any($1::int[])`,
};
