import type { Statement } from '../db/pool.js';
import type { Task } from './runner.js';

const MOST = 1_000;

/**
 * Ends leases that have run out: the attempt is spent; the job is ready again at once, dead, or cancelled if that was asked. Each run
 * says when the next of them runs out, so that a turn is late only for a lease that is shorter than the pause before it, and by less than a
 * second: no lease is shorter than one.
 */
export const returnExpired: Task = {
  name: 'return-expired',
  every: 1_000,
  whenIdle: 1_700,
  share: 0.1,
  run: async ({ database, wakeups, endings, queues }) => {
    const found = await database.tasks.query<Returned | Upcoming>(RETURN, [MOST]);
    const rows = found.filter((row) => row.jobId !== null);
    const next = found[0]?.next ?? undefined;
    wakeups.ready(
      new Set(
        rows
          .filter(({ fate, queueId }) => fate === 'ready' || queues.limits(queueId).limited)
          .map(({ queueId }) => queueId),
      ),
    );
    endings.ended(rows.filter(({ fate }) => fate !== 'ready').map(({ jobId }) => jobId));
    const ended = (as: Returned['fate']): number => rows.filter(({ fate }) => fate === as).length;
    const counts = { expired: rows.length, dead: ended('dead'), cancelled: ended('cancelled') };
    return { counts, again: rows.length >= MOST, next };
  },
};

interface Upcoming {
  readonly jobId: null;
  /** Milliseconds until the next of the leases runs out; null when there is none. */
  readonly next: number | null;
}

interface Returned extends Omit<Upcoming, 'jobId'> {
  readonly jobId: string;
  readonly queueId: number;
  readonly fate: 'ready' | 'dead' | 'cancelled';
}

// Reads the whole lease table once, which is small and has no index that would serve; locks what has run out in the order of its key, skipping
// what an ack, a heartbeat or another instance holds. A lease that was extended or ended in between no longer matches when its lock
// is had (the condition is checked again on the newest version of the row), so neither a finished job nor a new lease is touched.
const RETURN: Statement = {
  name: 'return-expired',
  text: `with clock as materialized (select clock_timestamp() as at),
standing as materialized (
  select l.ctid as place, l.job_id, l.lease_expires_at from lease l
),
over as materialized (
  select l.job_id, l.lease_id from lease l
  where l.ctid = any(array(
      select place from standing where lease_expires_at <= (select at from clock) order by job_id limit $1::int))
    and l.lease_expires_at <= (select at from clock)
  order by l.job_id
  for update skip locked
),
gone as (
  delete from lease l using over
  where l.job_id = over.job_id and l.lease_id = over.lease_id and l.lease_expires_at <= (select at from clock)
  returning l.*
),
upcoming as materialized (
  select (extract(epoch from min(lease_expires_at) - clock_timestamp()) * 1000)::float8 as next
  from standing
  where lease_expires_at > (select at from clock)
),
fate as materialized (
  select g.*, clock.at,
    case when g.cancel_requested then 'cancelled'
         when g.expires_at <= clock.at or g.attempt >= coalesce(g.max_attempts, q.max_attempts) then 'dead'
         else 'ready' end as fate,
    case when g.attempt >= coalesce(g.max_attempts, q.max_attempts) then 'attempts_spent' else 'expired' end::dead_reason as reason
  from clock, gone g
  join queue q on q.id = g.queue_id
),
to_ready as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, 'expired'
  from fate
  where fate = 'ready'
),
to_dead as (
  insert into dead (job_id, ended_at, expires_at, lease_id, queue_id, rank, epoch, attempt, releases, size, visibility_timeout, max_attempts,
    reason, ended)
  select job_id, at, expires_at, lease_id, queue_id, rank, epoch, attempt, releases, size, visibility_timeout, max_attempts, reason, 'expired'
  from fate
  where fate = 'dead'
),
to_finished as (
  insert into finished (job_id, queue_id, rank, state, ended, epoch, lease_id, attempt, releases, worker, started_at, ended_at)
  select job_id, queue_id, rank, 'cancelled', 'expired', epoch, lease_id, attempt, releases, worker, leased_at, at
  from fate
  where fate = 'cancelled'
),
history as (
  insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome, worker)
  select job_id, epoch, attempt, lease_id, leased_at, at, 'expired', worker
  from fate
  on conflict (job_id, epoch) do nothing
),
counted as (
  insert into queue_count (queue_id, leased, ready, dead, failed)
  select queue_id, -count(*), count(*) filter (where fate = 'ready'), count(*) filter (where fate = 'dead'), count(*)
  from fate
  group by queue_id
)
select f.job_id as "jobId", f.queue_id as "queueId", f.fate, u.next from upcoming u left join fate f on true`,
};
