import type { Statement } from '../db/pool.js';
import type { Breach } from './invariants.js';

/** Those of the rules that a window of ids shows broken. */
export const BREACHES = ['in_two_places', 'in_no_place', 'without_body', 'in_wrong_queue'] as const satisfies Breach[];
export type WindowBreach = (typeof BREACHES)[number];

/** What a look at a window has found. */
export interface Found {
  /** Where the window ends; null at the end of all. */
  readonly last: string | null;
  readonly checked: number;
  readonly totals: Readonly<Partial<Record<WindowBreach, number>>> | null;
  /** The first of them. */
  readonly breaches: readonly FoundBreach[] | null;
}

interface FoundBreach {
  readonly breach: WindowBreach;
  readonly jobId: string;
  readonly queueId: number;
  readonly marks: number;
}

/** Where the marks say that a job stands. */
export function placesIn(marks: number): string[] {
  return PLACES.filter((_, bit) => (marks & (1 << bit)) !== 0);
}

/** In the order of the marks of the statement below. */
const PLACES = ['body', 'ready', 'scheduled', 'leased', 'dead', 'dead', 'finished'];

// Reads only, in one snapshot, so that nothing that goes on meanwhile looks like a breach. The window begins after $1 and ends where
// the first of the six tables has had $2 ids, so that of none more is read; every read is a range of its index on the job's id, and
// there is no join: 10,000 jobs of 1,000,000 take 10 to 15 ms (65 ms when nothing is cached). Each row brings a mark for where it
// stands; those of a job are put together, and what is no proper sum is a breach. Finished jobs, and those that died for want of it,
// may be without body (64, 32).
export const CHECK_WINDOW: Statement = {
  name: 'check-window',
  text: `with reach as materialized (
  select least(
    (select id from job where id > $1::uuid order by id offset $2::int - 1 limit 1),
    (select job_id from ready where job_id > $1::uuid order by job_id offset $2::int - 1 limit 1),
    (select job_id from scheduled where job_id > $1::uuid order by job_id offset $2::int - 1 limit 1),
    (select job_id from lease where job_id > $1::uuid order by job_id offset $2::int - 1 limit 1),
    (select job_id from dead where job_id > $1::uuid order by job_id offset $2::int - 1 limit 1),
    (select job_id from finished where job_id > $1::uuid order by job_id offset $2::int - 1 limit 1)) as last
),
bound as materialized (
  select coalesce(last, 'ffffffff-ffff-ffff-ffff-ffffffffffff') as last from reach
),
seen as materialized (
  select id, bit_or(mark) as marks, min(queue_id) as queue_id, max(queue_id) as other_queue_id
  from (
    select id, queue_id, 1 as mark from job where id > $1::uuid and id <= (select last from bound)
    union all
    select job_id, queue_id, 2 from ready where job_id > $1::uuid and job_id <= (select last from bound)
    union all
    select job_id, queue_id, 4 from scheduled where job_id > $1::uuid and job_id <= (select last from bound)
    union all
    select job_id, queue_id, 8 from lease where job_id > $1::uuid and job_id <= (select last from bound)
    union all
    select job_id, queue_id, case reason when 'body_missing' then 32 else 16 end
    from dead where job_id > $1::uuid and job_id <= (select last from bound)
    union all
    select job_id, queue_id, 64 from finished where job_id > $1::uuid and job_id <= (select last from bound)) marked
  group by id
),
unknown as materialized (
  select s.queue_id
  from (select distinct queue_id from seen) s
  where not exists (select from queue q where q.id = s.queue_id)
),
judged as materialized (
  select id, queue_id, marks,
    case when marks & 126 not in (0, 2, 4, 8, 16, 32, 64) then 'in_two_places'
         when queue_id <> other_queue_id or (marks > 1 and queue_id = any(array(select queue_id from unknown))) then 'in_wrong_queue'
         when marks = 1 and exists (select from queue q where q.id = seen.queue_id and q.closed_at is null) then 'in_no_place'
         when marks in (2, 4, 8, 16) and exists (select from queue q where q.id = seen.queue_id and q.closed_at is null)
           then 'without_body'
         end as breach
  from seen
)
select (select last from reach) as last, (select count(*) from seen)::int as checked,
  (select json_object_agg(breach, jobs) from (
    select breach, count(*) as jobs from judged where breach is not null group by breach) t) as totals,
  (select json_agg(b) from (
    select breach, id as "jobId", queue_id as "queueId", marks from judged where breach is not null order by id limit $3::int) b
  ) as breaches`,
};
