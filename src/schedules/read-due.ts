import type { TenantLimits } from '../core/limits.js';
import type { Connections, Statement } from '../db/pool.js';
import type { Misfire, Overlap } from './plan-fires.js';

/** A schedule that is to be looked at now. Instants are microseconds since 1970. */
export interface DueRow {
  readonly id: string;
  readonly revision: number;
  readonly tenantId: string;
  readonly autoCreateQueues: boolean;
  readonly limits: TenantLimits;
  /** Its tenant is suspended or being deleted. */
  readonly isResting: boolean;
  readonly cron: string | null;
  readonly every: number | null;
  readonly timeZone: string;
  readonly anchor: number;
  readonly startAt: number | null;
  readonly endAt: number | null;
  readonly nextFire: number;
  readonly misfire: Misfire;
  readonly overlap: Overlap;
  readonly isRunning: boolean;
  readonly size: number;
  readonly queue: string;
  /** Null while there is no open queue of that name. */
  readonly queueId: number | null;
}

export interface DueSchedules {
  /** The database's time. */
  readonly now: number;
  /** When the next schedule after these is to be looked at; null when there is none. */
  readonly next: number | null;
  readonly due: readonly DueRow[];
}

type Clock = Pick<DueSchedules, 'now' | 'next'>;

/** Up to `most` schedules that are to be looked at, those first that have waited longest. */
export async function readDue(connections: Connections, most: number): Promise<DueSchedules> {
  const rows = await connections.query<Clock & (DueRow | { readonly id: null })>(DUE, [most]);
  const { now, next } = rows[0]!;
  return { now, next, due: rows.filter((row) => row.id !== null) };
}

/** Jobs stored of tenants: scheduled, ready, leased and dead. */
export async function readStored(connections: Connections, tenantIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await connections.query<{ id: string; jobs: number }>(STORED, [tenantIds]);
  return new Map(rows.map(({ id, jobs }) => [id, jobs]));
}

// Locks nothing: whoever comes first writes, the others then find their reading outdated. Index schedule_due; each last job is a
// handful of look-ups on unique indexes (`limit 1` keeps the view from being read whole), made only where it matters.
const DUE: Statement = {
  name: 'schedules-due',
  text: `with clock as materialized (select clock_timestamp() as at),
due as materialized (
  select * from schedule where look_at <= (select at from clock) order by look_at limit $1::int
)
select (extract(epoch from clock.at) * 1000000)::float8 as now,
  (select (extract(epoch from min(u.look_at)) * 1000000)::float8 from schedule u where u.look_at > (select at from clock)) as next,
  s.id, s.revision, s.tenant_id as "tenantId", t.auto_create_queues as "autoCreateQueues", t.limits,
  t.suspended_at is not null or t.closed_at is not null as "isResting", s.cron, s.every::float8 as every, s.time_zone as "timeZone",
  (extract(epoch from s.anchor_at) * 1000000)::float8 as anchor, (extract(epoch from s.start_at) * 1000000)::float8 as "startAt",
  (extract(epoch from s.end_at) * 1000000)::float8 as "endAt", (extract(epoch from s.next_fire_at) * 1000000)::float8 as "nextFire",
  s.misfire, s.overlap, last.state is not null as "isRunning", s.size, s.queue, q.id as "queueId"
from clock
left join due s on true
left join tenant t on t.id = s.tenant_id
left join queue q on q.tenant_id = s.tenant_id and q.name = s.queue and q.closed_at is null
left join lateral (
  select j.state from job_state j
  where j.job_id = s.last_job_id and s.overlap = 'skip' and j.state in ('scheduled', 'ready', 'leased')
  limit 1) last on true`,
};

// Reads the counts of the tenants' queues, exact as of the last commit but for what a purge under way still deletes; indexes queue_name
// and queue_count_queue.
const STORED: Statement = {
  name: 'schedules-stored',
  text: `select q.tenant_id as id, coalesce(sum(c.scheduled + c.ready + c.leased + c.dead), 0)::float8 as jobs
from queue q
join queue_count c on c.queue_id = q.id
where q.tenant_id = any($1::uuid[]) and q.closed_at is null
group by q.tenant_id`,
};
