import { v7 } from 'uuid';
import { plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { type JobCounts, NO_JOBS, readCounts } from '../queues/counts.js';
import type { Allowance, Elsewhere } from '../tenants/allowance.js';
import type { Allowances } from '../tenants/allowances.js';
import type { Task } from './runner.js';

const EVERY_MS = 500;
const CLEAN_EVERY_MS = 60_000;

/**
 * Tells the other instances what this one uses of limits, and asks what they use, so that all of them together keep to a limit without
 * a write for each call. Nothing is said while nobody who has such a limit calls.
 */
export function createShareLimits(allowances: Allowances): Task {
  const instanceId = v7();
  let cleanAt = performance.now() + CLEAN_EVERY_MS * Math.random();

  async function clean(connections: Connections): Promise<void> {
    if (performance.now() < cleanAt) return;
    cleanAt = performance.now() + CLEAN_EVERY_MS;
    await connections.query(CLEAN);
  }

  return {
    name: 'share-limits',
    every: EVERY_MS,
    run: async ({ database }: Engine) => {
      const inUse = [...allowances.inUse()];
      const shared = inUse.filter(([, { isShared }]) => isShared);
      const bounded = inUse.filter(([, { boundsStored }]) => boundsStored);
      await Promise.all([
        shared.length > 0 && share(database.tasks, instanceId, shared),
        bounded.length > 0 && countStored(database.tasks, bounded),
        shared.length > 0 && clean(database.tasks),
      ]);
      return { counts: { shared: shared.length } };
    },
  };
}

type Subject = readonly [id: string, allowance: Allowance];

async function share(connections: Connections, instanceId: string, subjects: readonly Subject[]): Promise<void> {
  const measured = performance.now();
  const usages = subjects.map(([, allowance]) => allowance.measure(measured));
  const rows = await connections.query<Elsewhere & { readonly id: string }>(SHARE, [
    instanceId,
    plainArray(subjects.map(([id]) => id)),
    plainArray(usages.map(({ requests }) => requests)),
    plainArray(usages.map(({ jobs }) => jobs)),
    plainArray(usages.map(({ parked }) => parked)),
    plainArray(usages.map(({ streams }) => streams)),
  ]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  const now = performance.now();
  for (const [id, allowance] of subjects) allowance.setElsewhere(byId.get(id), now);
}

interface Stored {
  readonly id: string;
  readonly jobs: number;
  /** Queues of which a purge is under way, whose changes still hold what is purged; null when there are none. */
  readonly purgedQueues: readonly number[] | null;
}

async function countStored(connections: Connections, subjects: readonly Subject[]): Promise<void> {
  const among = subjects.map(([, { storedSince }]) => storedSince);
  const rows = await connections.query<Stored>(STORED, [plainArray(subjects.map(([id]) => id))]);
  const purged = rows.flatMap(({ purgedQueues }) => purgedQueues ?? []);
  const counts = await readCounts(connections, purged);
  const byId = new Map(
    rows.map(({ id, jobs, purgedQueues }) => {
      const inPurged = (purgedQueues ?? []).reduce((sum, queueId) => sum + sumOf(counts.get(queueId)), 0);
      return [id, jobs + inPurged] as const;
    }),
  );
  subjects.forEach(([id, allowance], index) => allowance.setStored(byId.get(id) ?? 0, among[index]!));
}

function sumOf({ scheduled, ready, leased, dead }: JobCounts = NO_JOBS): number {
  return scheduled + ready + leased + dead;
}

// Writes this instance's rows, which nobody else does, and reads the others'; primary key. What an instance has not said for
// 5 s counts no more: it has stopped, or has nothing to say.
const SHARE: Statement = {
  name: 'limits-share',
  text: `with mine as (
  insert into limit_usage (instance_id, subject_id, requests, jobs, parked, streams, reported_at)
  select $1::uuid, id, requests, jobs, parked, streams, clock_timestamp()
  from unnest($2::uuid[], $3::real[], $4::real[], $5::int[], $6::int[]) as given(id, requests, jobs, parked, streams)
  on conflict (subject_id, instance_id) do update
  set requests = excluded.requests, jobs = excluded.jobs, parked = excluded.parked, streams = excluded.streams,
    reported_at = excluded.reported_at
)
select subject_id as id, sum(requests)::float8 as requests, sum(jobs)::float8 as jobs, sum(parked)::int as parked,
  sum(streams)::int as streams, count(*)::int as instances
from limit_usage
where subject_id = any($2::uuid[]) and instance_id <> $1::uuid and reported_at > clock_timestamp() - interval '5 seconds'
group by subject_id`,
};

// Reads the counts of the tenants' queues, exact as of the last commit; indexes queue_name and queue_count_queue.
const STORED: Statement = {
  name: 'limits-stored',
  text: `select q.tenant_id as id, coalesce(sum(c.scheduled + c.ready + c.leased + c.dead) filter (where q.cut = 0), 0)::float8 as jobs,
  array_agg(distinct q.id) filter (where q.cut > 0) as "purgedQueues"
from queue q
join queue_count c on c.queue_id = q.id
where q.tenant_id = any($1::uuid[]) and q.closed_at is null
group by q.tenant_id`,
};

// Small; what instances that are no more have left.
const CLEAN: Statement = {
  name: 'limits-clean',
  text: `delete from limit_usage where reported_at < clock_timestamp() - interval '1 minute'`,
};
