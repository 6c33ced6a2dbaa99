import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Metrics } from '../observability/metrics.js';
import { type JobCounts, readCounts } from '../queues/counts.js';
import type { Task } from './runner.js';

const MOST_QUEUES = 100;
const STATES = ['scheduled', 'ready', 'leased', 'dead'] as const;

/** Gauges of the deepest queues: jobs by state and the age of the oldest ready one; the rest as `other`, of no tenant. */
export function createSampleDepth(metrics: Pick<Metrics, 'queueDepth' | 'oldestAge'>): Task {
  return {
    name: 'sample-depth',
    every: 5_000,
    whenIdle: 10_000,
    share: 0.05,
    run: async ({ database }: Engine) => {
      const rows = await database.tasks.query<Sample>(SAMPLE, [MOST_QUEUES]);
      const named = rows.filter((row) => row.id !== null);
      // While a purge is under way the sums hold its rows.
      const exact = await readCounts(
        database.tasks,
        named.filter((row) => row.purged).map((row) => row.id!),
      );
      metrics.queueDepth(
        rows.flatMap(({ id, tenant, queue, ...sums }) => {
          const counts = (id === null ? undefined : exact.get(id)) ?? sums;
          return STATES.map((state) => ({ tenant, queue, state, value: counts[state] }));
        }),
      );
      metrics.oldestAge(named.map(({ tenant, queue, age }) => ({ tenant, queue, value: age ?? 0 })));
      return { counts: { queues: named.length } };
    },
  };
}

interface Sample extends JobCounts {
  /** Null for the sum of all other queues. */
  readonly id: number | null;
  readonly tenant: string;
  readonly queue: string;
  readonly purged: boolean;
  /** Seconds. */
  readonly age: number | null;
}

// Reads only: all of queue_count, which folding keeps at about a row for each queue, and the first row of each lane of the
// deepest queues (ready's primary key).
const SAMPLE: Statement = {
  name: 'sample-depth',
  text: `with sums as materialized (
  select c.queue_id, sum(c.scheduled) as scheduled, sum(c.ready) as ready, sum(c.leased) as leased, sum(c.dead) as dead
  from queue_count c
  group by c.queue_id
),
deepest as materialized (
  select q.id, q.tenant_id, q.name, q.cut, s.scheduled, s.ready, s.leased, s.dead
  from sums s
  join queue q on q.id = s.queue_id and q.closed_at is null
  where s.scheduled + s.ready + s.leased + s.dead > 0
  order by s.scheduled + s.ready + s.leased + s.dead desc, q.id
  limit $1::int
)
select d.id, t.name as tenant, d.name as queue, d.cut > 0 as purged, d.scheduled::float8 as scheduled, d.ready::float8 as ready,
  d.leased::float8 as leased, d.dead::float8 as dead, (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = d.id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = d.id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select extract(epoch from clock_timestamp() - min(head.ready_at))::float8
    from lane
    cross join lateral (
      select r.ready_at from ready r
      where r.queue_id = d.id and r.rank = lane.rank and r.pos > d.cut
      order by r.pos limit 1) head) as age
from deepest d
join tenant t on t.id = d.tenant_id
union all
select null, '', 'other', false, coalesce(sum(scheduled), 0)::float8, coalesce(sum(ready), 0)::float8,
  coalesce(sum(leased), 0)::float8, coalesce(sum(dead), 0)::float8, null
from sums
join queue q on q.id = sums.queue_id and q.closed_at is null
where sums.queue_id not in (select id from deepest)`,
};
