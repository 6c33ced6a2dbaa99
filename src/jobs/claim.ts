import type { Connections, OwnConnection, Statement } from '../db/pool.js';
import { plainArray, textArray } from '../db/literals.js';
import type { ClaimKind } from '../hotpath/claim-kind.js';
import type { Taken } from '../hotpath/lanes.js';
import type { Round } from '../hotpath/round.js';
import { stretchParameters } from '../hotpath/stretches.js';
import { type LeasedJob, type LeasedRow, toLeasedJob } from './leased-job.js';

/** A leased job with what is needed to take it back. */
export interface Claimed {
  readonly job: LeasedJob;
  readonly jobId: string;
  readonly queueId: number;
  readonly leaseId: string;
  readonly bodyMissing: boolean;
}

/** The bytes after which a reply takes no further job, once it holds one. */
const REPLY_BYTES = 3 * 1024 * 1024;
/** What a job takes up in a reply beside its payload and headers. */
const JOB_BYTES = 1_024;

export const claimKind: ClaimKind<Claimed> = {
  claim: async (connections, round, started) => {
    const claim = async (connection: OwnConnection): Promise<ClaimedRow[]> => {
      started(connection.processId);
      if (round.limited.length > 0) await connection.query(LOCK_LIMITED, [plainArray(round.limited)]);
      return connection.query<ClaimedRow>(CLAIM, parameters(round));
    };
    const rows = await (round.limited.length > 0 ? connections.transaction(claim) : connections.withConnection(claim));
    const slots = new Map(round.leaseIds.map((leaseId, slot) => [leaseId, slot]));
    const jobs = rows
      .map((row) => toClaimed(row, round, slots.get(row.leaseId)!))
      .sort((a, b) => a.preference - b.preference || a.slot - b.slot);
    const summary = rows.find((row) => row.taken !== null);
    const waits = waitsOf(rows, summary?.leasedAt ?? 0);
    return { jobs, waits, taken: takenOf(summary?.taken ?? []), found: new Map(summary?.found ?? []) };
  },
  giveBack: (connections, leaseIds) => connections.query(GIVE_BACK_CLAIM, [plainArray(leaseIds)]).then(() => undefined),
};

interface ClaimedRow extends LeasedRow {
  readonly leaseId: string;
  readonly hasBody: boolean;
  readonly size: number;
  /** On one row: queue, rank, highest position and number of what was taken. */
  readonly taken: readonly (readonly [number, number, number, number])[] | null;
  /** On the same row: queue and number of what was looked at. */
  readonly found: readonly (readonly [number, number])[] | null;
  /** On the same row: when all of them were leased, in microseconds. */
  readonly leasedAt: number | null;
}

/** Slots follow the order of the ready rows, queue by queue. */
function toClaimed(row: ClaimedRow, round: Round, slot: number) {
  const { jobId, queueId, leaseId } = row;
  return {
    waiter: round.slotWaiter[slot]!,
    preference: round.slotPreference[slot]!,
    slot,
    queueId,
    job: { job: toLeasedJob(row), jobId, queueId, leaseId, bodyMissing: !row.hasBody },
  };
}

/** Of first leases only: when a job came back from an earlier one is not in its row. */
function waitsOf(rows: readonly ClaimedRow[], leasedAt: number): number[] {
  const waits: number[] = [];
  for (const { epoch, runAt } of rows) if (epoch === 1) waits.push(Math.max(0, leasedAt - runAt) / 1_000_000);
  return waits;
}

function takenOf(lanes: NonNullable<ClaimedRow['taken']>): ReadonlyMap<number, Taken> {
  const queues = new Map<number, Map<number, { pos: number; rows: number }>>();
  for (const [queueId, rank, pos, rows] of lanes) {
    const queue = queues.get(queueId);
    if (queue === undefined) queues.set(queueId, new Map([[rank, { pos, rows }]]));
    else queue.set(rank, { pos, rows });
  }
  return queues;
}

function parameters(round: Round): unknown[] {
  const requests = round.waiters.map(({ request }) => request);
  return [
    plainArray(round.queues.map(({ queueId }) => queueId)),
    plainArray(round.queues.map(({ limit }) => limit)),
    plainArray(round.queues.map(({ offset }) => offset)),
    plainArray(round.slotWaiter.map((waiter) => waiter + 1)),
    plainArray(round.slotPreference),
    plainArray(round.leaseIds),
    plainArray(requests.map(({ maxJobs }) => maxJobs)),
    plainArray(requests.map(({ visibilityTimeout }) => visibilityTimeout ?? 0)),
    textArray(requests.map(({ worker }) => worker)),
    REPLY_BYTES,
    JOB_BYTES,
    ...stretchParameters(round.queues.map(({ start }) => start.stretches)),
  ];
}

/** Makes leased jobs without a body dead, if they still are leased under these ids. Throws UNAVAILABLE. */
export async function moveBodiless(connections: Connections, claimed: readonly Claimed[]): Promise<void> {
  await connections.query(BODY_MISSING, [
    plainArray(claimed.map(({ leaseId }) => leaseId)),
    plainArray(claimed.map(({ jobId }) => jobId)),
  ]);
}

// One statement for all who wait, whatever their queues. Locks the ready rows it looks at, skipping those that others hold, in
// the order of ready's primary key (queue, rank, pos), which serves the search stretch by stretch (`Lanes`); any number may run at once. Rows locked but not
// taken (their waiter has enough, or its reply is full) are free again at the commit. Rows of `ready` are never updated, so a
// locked row is there to be deleted: the delete takes exactly the rows of `kept`, and if it ever did not, the division by zero
// undoes everything. A claim is durable before its reply: it must not be run with synchronous_commit off. A job that stands in
// lease already (it never should) is passed over, so that it cannot fail the claim of all the others; why by a scalar sub-select
// stands with the ack. Instants are told by `date_part`, a double that is within half a microsecond until 2106, and is
// rounded: `extract` computes in decimals, 0.3 µs each.
// `offset 0` keeps the look-up of job an index condition, also in a plan made while it was empty.
const CLAIM: Statement = {
  name: 'claim',
  text: `with clock as materialized (select clock_timestamp() as at),
picked as materialized (
  select x.*, w.start, q.visibility_timeout as queue_timeout, q.max_lease_duration,
    w.start + row_number() over (partition by x.queue_id order by x.rank, x.pos) as slot
  from unnest($1::int[], $2::int[], $3::int[], $12::int[], $13::int[]) as w(queue_id, lim, start, first_stretch, last_stretch)
  join queue q on q.id = w.queue_id and q.paused_at is null and q.closed_at is null
  cross join lateral (
    select greatest(0, least(w.lim,
      case when q.max_in_flight is not null then
        q.max_in_flight - (select coalesce(sum(c.leased), 0) from queue_count c where c.queue_id = q.id) end,
      case when q.rate_limit_jobs is not null then
        floor(q.rate_limit_jobs * (1 - coalesce((
          select greatest(0, extract(epoch from s.spent_until - (select at from clock))) from queue_rate s where s.queue_id = q.id), 0)
          * 1000 / q.rate_limit_per)) end))::int as lim offset 0) bound
  cross join lateral (
    select stretch.* from generate_series(w.first_stretch, w.last_stretch) as n
    cross join lateral (
      select r.ctid as place, r.* from ready r
      where r.queue_id = w.queue_id and (r.rank, r.pos) > (($14::smallint[])[n], ($15::bigint[])[n]) and r.rank < ($16::smallint[])[n]
        and r.pos > q.cut and (r.expires_at is null or r.expires_at > (select at from clock))
      order by r.rank, r.pos
      limit bound.lim
      for update skip locked) stretch
    limit bound.lim) x
),
offered as (
  select p.*, ($4::int[])[p.slot] as waiter, ($5::int[])[p.slot] as preference, ($6::bigint[])[p.slot] as new_lease_id,
    p.size + $11::int + coalesce(e.bytes, 0) as reply_bytes
  from picked p
  left join lateral (
    select octet_length(a.error) as bytes from attempt a
    where a.job_id = p.job_id and p.epoch > 0 and a.error is not null
    order by a.epoch desc
    limit 1) e on true
),
ordered as (
  select o.*, row_number() over line as nth, sum(o.reply_bytes) over line as bytes
  from offered o
  window line as (partition by o.waiter order by o.preference, o.rank, o.pos)
),
kept as materialized (
  select o.*, coalesce(nullif(($8::int[])[o.waiter], 0), o.visibility_timeout, o.queue_timeout) as duration
  from ordered o
  where o.nth <= ($7::int[])[o.waiter] and (o.nth = 1 or o.bytes <= $10::int)
),
taken as (
  delete from ready where ctid = any(array(select place from kept)) returning queue_id
),
agreed as materialized (
  select 1 / (case when (select count(*) from taken) = (select count(*) from kept) then 1 else 0 end) as yes
),
leased as (
  insert into lease (job_id, queue_id, rank, epoch, lease_id, attempt, releases, size, expires_at, visibility_timeout, max_attempts,
    worker, leased_at, duration, max_until, lease_expires_at)
  select k.job_id, k.queue_id, k.rank, k.epoch + 1, k.new_lease_id, k.attempt + 1, k.releases, k.size, k.expires_at,
    k.visibility_timeout, k.max_attempts, ($9::text[])[k.waiter], clock.at, k.duration,
    clock.at + k.max_lease_duration * interval '1 millisecond',
    clock.at + least(k.duration, k.max_lease_duration) * interval '1 millisecond'
  from clock, agreed, kept k
  where agreed.yes = 1 and (select standing.epoch from lease standing where standing.job_id = k.job_id) is null
  returning *
),
counted as (
  insert into queue_count (queue_id, ready, leased)
  select queue_id, -count(*), count(*) from taken group by queue_id
),
spent as (
  insert into queue_rate (queue_id, spent_until)
  select t.queue_id, clock.at + t.leases * (q.rate_limit_per::float8 / q.rate_limit_jobs) * interval '1 millisecond'
  from clock, (select queue_id, count(*) as leases from taken group by queue_id) t
  join queue q on q.id = t.queue_id and q.rate_limit_jobs is not null
  on conflict (queue_id) do update
  set spent_until = greatest(queue_rate.spent_until, (select at from clock)) + (excluded.spent_until - (select at from clock))
)
select l.job_id as "jobId", l.queue_id as "queueId", l.lease_id as "leaseId", l.epoch, l.attempt, l.duration, l.size, l.rank,
  q.name as queue, coalesce(l.max_attempts, q.max_attempts) as "maxAttempts",
  round(date_part('epoch', l.lease_expires_at) * 1000000) as "leaseExpiresAt",
  job.id is not null as "hasBody", job.kind,
  case when job.is_json then convert_from(job.payload, 'UTF8') end as payload,
  case when not job.is_json then job.payload end as "payloadBytes",
  job.content_type as "contentType", job.headers,
  round(date_part('epoch', job.created_at) * 1000000) as "enqueuedAt",
  round(date_part('epoch', job.run_at) * 1000000) as "runAt",
  e.error, e.outcome::text as "errorOutcome", e.attempt as "errorAttempt",
  case when row_number() over () = 1 then (
    select json_agg(json_build_array(lane.queue_id, lane.rank, lane.pos, lane.rows))
    from (select k.queue_id, k.rank, max(k.pos) as pos, count(*) as rows from kept k group by k.queue_id, k.rank) lane) end as taken,
  case when row_number() over () = 1 then (
    select json_agg(json_build_array(look.queue_id, look.rows))
    from (select p.queue_id, count(*) as rows from picked p group by p.queue_id) look) end as found,
  case when row_number() over () = 1 then round(date_part('epoch', l.leased_at) * 1000000) end as "leasedAt"
from leased l
join queue q on q.id = l.queue_id
left join lateral (select * from job where job.id = l.job_id offset 0) job on true
left join lateral (
  select a.error, a.outcome, a.attempt from attempt a
  where a.job_id = l.job_id and l.epoch > 1 and (a.error is not null or a.outcome = 'expired')
  order by a.epoch desc
  limit 1) e on true`,
};

// Queues with a bound on their leases are claimed by one transaction at a time: the claim comes after the lock, so that it counts
// every lease and every allowance spent that was committed before. Sorted, so that two of these never wait in a circle; nothing else
// takes these locks. 22292 is the class of Stint's locks by queue.
const LOCK_LIMITED: Statement = {
  name: 'claim-lock-limited',
  text: `select pg_advisory_xact_lock(22292, q) from unnest($1::int[]) q`,
};

// For a claim whose answer was lost, by lease ids alone: no index serves that, and none is needed, since leases are few and this
// is rare. May run beside settles: each row goes to whoever deletes it first.
const GIVE_BACK_CLAIM: Statement = {
  name: 'claim-give-back',
  text: `with gone as (
  delete from lease where lease_id = any($1::bigint[]) returning *
),
back as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, clock_timestamp(), expires_at, lease_id, epoch, attempt - 1, releases, size, visibility_timeout, max_attempts,
    'undelivered'
  from gone
)
insert into queue_count (queue_id, ready, leased)
select queue_id, count(*), -count(*) from gone group by queue_id`,
};

// A leased job without a body: by primary key of lease and by lease id, beside anything else.
const BODY_MISSING: Statement = {
  name: 'claim-body-missing',
  text: `with gone as (
  delete from lease
  where job_id = any($2::uuid[]) and lease_id = ($1::bigint[])[array_position($2::uuid[], job_id)]
  returning *
),
buried as (
  insert into dead (job_id, ended_at, lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, reason, ended)
  select job_id, clock_timestamp(), lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, 'body_missing', 'none'
  from gone
)
insert into queue_count (queue_id, leased, dead, failed)
select queue_id, -count(*), count(*), count(*) from gone group by queue_id`,
};
