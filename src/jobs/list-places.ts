import type { Statement } from '../db/pool.js';

/** Where jobs stand, each with an order of its own that new jobs do not disturb. */
export const SECTIONS = ['scheduled', 'ready', 'leased', 'dead', 'finished'] as const;
export type Section = (typeof SECTIONS)[number];

/** Rows looked at for one page; for leases, which have no index by queue, it counts those of all queues. */
export const SCAN: Readonly<Record<Section, number>> = {
  scheduled: 10_000,
  ready: 10_000,
  leased: 100_000,
  dead: 10_000,
  finished: 10_000,
};

/** The sort key of a row: an instant, a rank or nothing; then a position or a job id. */
export type Key = readonly [first: number, second: number | string];

const NO_ID = '00000000-0000-0000-0000-000000000000';
const BEFORE_ALL: Readonly<Record<Section, Key>> = {
  scheduled: [0, NO_ID],
  ready: [-32_768, 0],
  leased: [0, NO_ID],
  dead: [0, NO_ID],
  finished: [0, NO_ID],
};

/** The key that comes before every row of a section. */
export function startOf(section: Section): Key {
  return BEFORE_ALL[section];
}

/** A row that was found, or the last one that was looked at, which need not match. */
export interface PlaceRow {
  readonly jobId: string;
  readonly first: number;
  readonly second: number | string;
  readonly matches: boolean;
  /** No row was looked at after it, though there may be more. */
  readonly last: boolean;
}

// One statement a section. $1 queue id, $2 $3 the key to go on after, $4 rows to return, $5 rows to look at, $6 kind,
// $7 $8 enqueued before and after (microseconds; not known here of jobs whose body is gone), $9 which of the finished ones.
// They lock nothing and walk one index from the key on, at most $5 rows of it, with one look-up of the body for each.
export const PLACES: Readonly<Record<Section, Statement>> = {
  // scheduled_queue
  scheduled: {
    name: 'jobs-list-scheduled',
    text: `select s.job_id as "jobId", (extract(epoch from s.due_at) * 1000000)::float8 as "first", s.job_id as "second", m.matches, s.n = $5::int as "last"
from (
  select job_id, due_at, row_number() over (order by due_at, job_id) as n
  from scheduled
  where queue_id = $1::int
    and (due_at, job_id) > (timestamptz 'epoch' + $2::float8 * interval '1 microsecond', $3::uuid)
    and pos > (select cut from queue where id = $1::int)
  order by due_at, job_id
  limit $5::int) s
left join job j on j.id = s.job_id
cross join lateral (
  select ($6::text is null or coalesce(j.kind = $6::text, false))
    and ($7::float8 is null or coalesce(j.created_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond', true))
    and ($8::float8 is null or coalesce(j.created_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond', true)) as matches) m
where m.matches or s.n = $5::int
order by s.due_at, s.job_id
limit $4::int`,
  },
  // the primary key of ready
  ready: {
    name: 'jobs-list-ready',
    text: `select s.job_id as "jobId", s.rank::float8 as "first", s.pos::float8 as "second", m.matches, s.n = $5::int as "last"
from (
  select job_id, rank, pos, row_number() over (order by rank, pos) as n
  from ready
  where queue_id = $1::int
    and (rank, pos) > ($2::float8::smallint, $3::bigint)
    and pos > (select cut from queue where id = $1::int)
  order by rank, pos
  limit $5::int) s
left join job j on j.id = s.job_id
cross join lateral (
  select ($6::text is null or coalesce(j.kind = $6::text, false))
    and ($7::float8 is null or coalesce(j.created_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond', true))
    and ($8::float8 is null or coalesce(j.created_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond', true)) as matches) m
where m.matches or s.n = $5::int
order by s.rank, s.pos
limit $4::int`,
  },
  // the primary key of lease, over all queues: it has no other index, so that heartbeats stay heap-only
  leased: {
    name: 'jobs-list-leased',
    text: `select s.job_id as "jobId", $2::float8 as "first", s.job_id as "second", m.matches, s.n = $5::int as "last"
from (
  select job_id, queue_id, row_number() over (order by job_id) as n
  from lease
  where job_id > $3::uuid
  order by job_id
  limit $5::int) s
left join job j on s.queue_id = $1::int and j.id = s.job_id
cross join lateral (
  select s.queue_id = $1::int
    and ($6::text is null or coalesce(j.kind = $6::text, false))
    and ($7::float8 is null or coalesce(j.created_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond', true))
    and ($8::float8 is null or coalesce(j.created_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond', true)) as matches) m
where m.matches or s.n = $5::int
order by s.job_id
limit $4::int`,
  },
  // dead_queue
  dead: {
    name: 'jobs-list-dead',
    text: `select s.job_id as "jobId", (extract(epoch from s.ended_at) * 1000000)::float8 as "first", s.job_id as "second", m.matches, s.n = $5::int as "last"
from (
  select job_id, ended_at, row_number() over (order by ended_at, job_id) as n
  from dead
  where queue_id = $1::int
    and (ended_at, job_id) > (timestamptz 'epoch' + $2::float8 * interval '1 microsecond', $3::uuid)
  order by ended_at, job_id
  limit $5::int) s
left join job j on j.id = s.job_id
cross join lateral (
  select ($6::text is null or coalesce(j.kind = $6::text, false))
    and ($7::float8 is null or coalesce(j.created_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond', true))
    and ($8::float8 is null or coalesce(j.created_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond', true)) as matches) m
where m.matches or s.n = $5::int
order by s.ended_at, s.job_id
limit $4::int`,
  },
  // finished_queue
  finished: {
    name: 'jobs-list-finished',
    text: `select s.job_id as "jobId", (extract(epoch from s.ended_at) * 1000000)::float8 as "first", s.job_id as "second", m.matches, s.n = $5::int as "last"
from (
  select job_id, ended_at, state, row_number() over (order by ended_at, job_id) as n
  from finished
  where queue_id = $1::int
    and (ended_at, job_id) > (timestamptz 'epoch' + $2::float8 * interval '1 microsecond', $3::uuid)
  order by ended_at, job_id
  limit $5::int) s
left join job j on j.id = s.job_id
cross join lateral (
  select ($6::text is null or coalesce(j.kind = $6::text, false))
    and ($7::float8 is null or coalesce(j.created_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond', true))
    and ($8::float8 is null or coalesce(j.created_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond', true))
    and ($9::text is null or $9::text = s.state::text) as matches) m
where m.matches or s.n = $5::int
order by s.ended_at, s.job_id
limit $4::int`,
  },
};

// One look-up on the primary key of idempotency; the queue id was resolved under its tenant.
export const PLACE_OF_KEY: Statement = {
  name: 'jobs-list-key',
  text: `select job_id as "jobId"
from idempotency
where queue_id = $1::int and key = $2`,
};
