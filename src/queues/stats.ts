import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration } from '../core/wire.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { JobCounts, readCounts, NO_JOBS } from './counts.js';
import { noSuchQueue } from './queue.js';

const perSecond = (description: string) => Type.Number({ description });

const QueueStats = Type.Object({
  counts: JobCounts,
  oldestReadyAge: Type.Optional(
    Duration({
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'For how long the oldest of the ready jobs has been ready; absent when none is.',
    }),
  ),
  rates: Type.Object(
    {
      enqueued: perSecond('Jobs enqueued.'),
      completed: perSecond('Jobs completed.'),
      failed: perSecond('Attempts failed, and jobs that died without one.'),
    },
    { description: 'Per second, over the last minute or a little less.' },
  ),
  workers: Type.Array(
    Type.Object({
      worker: Type.Optional(Type.String({ description: 'Absent for leases whose request named none.' })),
      leases: Type.Integer(),
    }),
    { description: 'Leases by worker: the 100 workers with the most.' },
  ),
  paused: Type.Boolean(),
});

export const getQueueStats = defineOperation({
  name: 'GetQueueStats',
  group: 'Queues',
  summary: 'Counts by state, age of the oldest ready job, rates, leases by worker',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/queues/:queue/stats' }],
  input: Type.Object({ queue: queueName }),
  output: QueueStats,
  run: async ({ engine, tenant }: Context<Engine>, input) => {
    const { ordinary } = engine.database;
    const [row] = await ordinary.query<StatsRow>(STATS, [tenant.id, input.queue]);
    if (row === undefined) throw noSuchQueue();
    const counts = await readCounts(ordinary, [row.id]);
    const workers = await ordinary.query<{ worker: string | null; leases: number }>(WORKERS, [row.id]);
    return {
      counts: counts.get(row.id) ?? NO_JOBS,
      oldestReadyAge: row.oldestReadyAge ?? undefined,
      rates: { enqueued: row.enqueued, completed: row.completed, failed: row.failed },
      workers: workers.map(({ worker, leases }) => ({ worker: worker ?? undefined, leases })),
      paused: row.paused,
    };
  },
});

interface StatsRow {
  readonly id: number;
  readonly paused: boolean;
  readonly oldestReadyAge: number | null;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
}

// Reads only; indexes queue_name, ready's primary key (the first row of each lane), queue_count_queue. Rates: what the counters
// have risen since the earlier mark (mark-rates.ts). A mark older than a minute means that nothing happened from then until
// the last minute began, since a queue in which something happens is marked anew.
const STATS: Statement = {
  name: 'queue-stats',
  text: `with recursive target as materialized (
  select id, cut, paused_at is not null as paused, earlier_mark as mark, clock_timestamp() as now,
    least(greatest(extract(epoch from clock_timestamp() - earlier_mark_at), 1), 60)::float8 as seconds
  from queue
  where tenant_id = $1::uuid and name = $2 and closed_at is null
),
lane(queue_id, rank) as (
  select t.id, (select r.rank from ready r where r.queue_id = t.id order by r.rank limit 1) from target t
  union all
  select l.queue_id, (select r.rank from ready r where r.queue_id = l.queue_id and r.rank > l.rank order by r.rank limit 1)
  from lane l
  where l.rank is not null
),
oldest as (
  select min(head.ready_at) as ready_at
  from lane l
  cross join target t
  cross join lateral (
    select r.ready_at from ready r
    where r.queue_id = l.queue_id and r.rank = l.rank and r.pos > t.cut
    order by r.pos limit 1) head
),
risen as (
  select coalesce(sum(c.enqueued), 0) as enqueued, coalesce(sum(c.completed), 0) as completed, coalesce(sum(c.failed), 0) as failed
  from queue_count c
  where c.queue_id = (select id from target)
)
select t.id, t.paused, (floor(extract(epoch from greatest(t.now, oldest.ready_at) - oldest.ready_at) * 1000))::float8 as "oldestReadyAge",
  greatest(risen.enqueued - t.mark[1], 0)::float8 / t.seconds as enqueued,
  greatest(risen.completed - t.mark[2], 0)::float8 / t.seconds as completed,
  greatest(risen.failed - t.mark[3], 0)::float8 / t.seconds as failed
from target t, oldest, risen`,
};

// Reads only. A scan of lease, which holds no more than the running jobs and has no index to spare.
const WORKERS: Statement = {
  name: 'queue-stats-workers',
  text: `select worker, count(*)::int as leases
from lease
where queue_id = $1::int
group by worker
order by count(*) desc, worker
limit 100`,
};
