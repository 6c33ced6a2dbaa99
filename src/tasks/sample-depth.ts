import type { Connections, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Metrics } from '../observability/metrics.js';
import type { QueueSample, QueuesSample } from '../observability/queue-metrics.js';
import { type JobCounts, readCounts } from '../queues/counts.js';
import type { Task } from './runner.js';
import { readStorage } from './sample-storage.js';

/** By depth, and as many by traffic. */
const MOST_QUEUES = 50;
const SHARE = 0.05;
/** For how long a sample is shown; more than the pause between ticks of once a minute (docs/tick.md). */
const VALID_MS = 90_000;
const STORAGE_EVERY_MS = 60_000;
const STORAGE_VALID_MS = 150_000;

export type Shown = Pick<Metrics, 'queues' | 'queuesUnknown' | 'storage' | 'storageUnknown'>;

/**
 * Samples what is shown of the whole database: of the deepest and the busiest queues jobs by state, traffic and the age of the oldest
 * ready one, the rest as `other`; how late schedules are; and once a minute what the tables take up and who holds back their vacuum.
 *
 * One instance does so, that the sum over all is right: the one that has listened for wake-ups for longest. While nobody listens, and
 * none can be told from the others, each does. What an instance has shown vanishes when it is not the one any more, and when it has
 * not succeeded for a minute and a half.
 */
export function createSampleDepth(metrics: Shown): Task {
  let storageAt = -Infinity;

  async function sampleStorage(connections: Connections): Promise<void> {
    if (performance.now() < storageAt) return;
    metrics.storage(await readStorage(connections), STORAGE_VALID_MS);
    storageAt = performance.now() + STORAGE_EVERY_MS;
  }

  return {
    name: 'sample-depth',
    every: 5_000,
    whenIdle: 10_000,
    share: SHARE,
    run: async ({ database, wakeups }: Engine) => {
      const began = performance.now();
      const sample = await readQueues(database.tasks, wakeups.processId);
      if (sample === undefined) {
        metrics.queuesUnknown();
        metrics.storageUnknown();
        storageAt = -Infinity;
        return { counts: { queues: 0 } };
      }
      // A slow run makes the pause after it longer.
      metrics.queues(sample, VALID_MS + (performance.now() - began) / SHARE);
      await sampleStorage(database.tasks);
      return { counts: { queues: sample.queues.length } };
    },
  };
}

/** Undefined when it is for another instance to show. */
async function readQueues(connections: Connections, listener: number | undefined): Promise<QueuesSample | undefined> {
  const rows = await connections.query<NamedRow | OtherRow>(SAMPLE, [MOST_QUEUES, listener ?? null]);
  const other = rows.find((row) => row.id === null);
  if (other === undefined) return undefined;
  const named = rows.filter((row) => row.id !== null);
  // While a purge is under way the sums hold its rows.
  const exact = await readCounts(
    connections,
    named.filter(({ purged }) => purged).map(({ id }) => id),
  );
  const { scheduleLag, dueJobLag } = other;
  return { queues: named.map((row) => toSample(row, exact.get(row.id))), other, scheduleLag, dueJobLag };
}

function toSample(row: NamedRow, exact: JobCounts | undefined): QueueSample {
  const { tenant, queue, age, enqueued, completed, failed } = row;
  return { tenant, queue, counts: exact ?? row, oldestReady: age ?? 0, enqueued, completed, failed };
}

interface NamedRow extends JobCounts {
  readonly id: number;
  readonly tenant: string;
  readonly queue: string;
  readonly purged: boolean;
  /** Seconds. */
  readonly age: number | null;
  readonly enqueued: number;
  readonly completed: number;
  readonly failed: number;
}

/** The sum of all other queues, and what is said once. */
interface OtherRow extends JobCounts {
  readonly id: null;
  /** Seconds. */
  readonly scheduleLag: number;
  readonly dueJobLag: number;
}

// Reads only, and where it is not this instance's turn no more than the sessions of the database. A listener is checked each 5 s: one that was
// idle for longer has lost its instance. Then all of queue_count, which folding keeps at about a row for each queue; the first row of each
// lane of the queues shown (ready's primary key); the first due row of schedule (schedule_due) and of scheduled (its primary key). Traffic is
// what the counters have risen since the earlier mark (mark-rates.ts), a minute ago or less. A schedule's turn comes at `look_at`.
const SAMPLE: Statement = {
  name: 'sample-depth',
  text: `with clock as materialized (select clock_timestamp() as at),
listening as materialized (
  select pid, backend_start from pg_stat_activity
  where application_name = 'stint wakeups' and datname = current_database() and state_change > (select at from clock) - interval '20 seconds'
),
turn as materialized (
  select (not exists (select from listening) or $2::int = (select pid from listening order by backend_start, pid limit 1)) is true as mine
),
sums as materialized (
  select c.queue_id, sum(c.scheduled) as scheduled, sum(c.ready) as ready, sum(c.leased) as leased, sum(c.dead) as dead,
    sum(c.enqueued) as enqueued, sum(c.completed) as completed, sum(c.failed) as failed
  from queue_count c
  where (select mine from turn)
  group by c.queue_id
),
standing as materialized (
  select q.id, q.tenant_id, q.name, q.cut, s.*, s.scheduled + s.ready + s.leased + s.dead as jobs,
    s.enqueued + s.completed + s.failed - q.earlier_mark[1] - q.earlier_mark[2] - q.earlier_mark[3] as risen
  from sums s
  join queue q on q.id = s.queue_id and q.closed_at is null
),
shown as materialized (
  (select id from standing where jobs > 0 order by jobs desc, id limit $1::int)
  union
  (select id from standing where risen > 0 order by risen desc, id limit $1::int)
)
select d.id, t.name as tenant, d.name as queue, d.cut > 0 as purged, d.scheduled::float8 as scheduled, d.ready::float8 as ready,
  d.leased::float8 as leased, d.dead::float8 as dead, d.enqueued::float8 as enqueued, d.completed::float8 as completed,
  d.failed::float8 as failed, (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = d.id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = d.id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select greatest(extract(epoch from clock_timestamp() - min(head.ready_at)), 0)::float8
    from lane
    cross join lateral (
      select r.ready_at from ready r
      where r.queue_id = d.id and r.rank = lane.rank and r.pos > d.cut
      order by r.pos limit 1) head) as age,
  null::float8 as "scheduleLag", null::float8 as "dueJobLag"
from shown
join standing d on d.id = shown.id
join tenant t on t.id = d.tenant_id
union all
select null, '', '', false, o.scheduled, o.ready, o.leased, o.dead, null, null, null, null,
  coalesce((
    select extract(epoch from clock.at - s.look_at) from schedule s
    where s.look_at <= (select at from clock)
    order by s.look_at limit 1), 0)::float8,
  coalesce((
    select extract(epoch from clock.at - s.due_at) from scheduled s
    where s.due_at <= (select at from clock) and s.pos > (select q.cut from queue q where q.id = s.queue_id)
    order by s.due_at, s.job_id limit 1), 0)::float8
from clock, turn, (
  select coalesce(sum(scheduled), 0)::float8 as scheduled, coalesce(sum(ready), 0)::float8 as ready,
    coalesce(sum(leased), 0)::float8 as leased, coalesce(sum(dead), 0)::float8 as dead
  from standing
  where id not in (select id from shown)) o
where turn.mine`,
};
