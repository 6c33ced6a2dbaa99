import type { Statement } from '../db/pool.js';

/** Something that must be true of the whole database between any two statements, whatever goes on. */
export interface Invariant {
  /** One word for a breach: in metrics, in the log, in the output of `stint check`. */
  readonly breach: Breach;
  /** What must be true, as a sentence. */
  readonly rule: string;
  /** Finds up to $1 breaches, each with what tells it apart and nothing that a tenant has sent but keys. */
  readonly statement: Statement;
}

export type Breach = keyof typeof RULES;

// Each rule is one statement, thus one snapshot. It reads whole tables, so it is for tests and `stint check`; what the task does
// beside running work is in check.ts. What a closed queue holds is being deleted and need not be whole.
const PLACES = `with place as (
  select job_id, queue_id, 'ready' as state, epoch, attempt, lease_id, expires_at from stint.ready
  union all select job_id, queue_id, 'scheduled', epoch, attempt, lease_id, expires_at from stint.scheduled
  union all select job_id, queue_id, 'leased', epoch, attempt, lease_id, expires_at from stint.lease
  union all select job_id, queue_id, 'dead', epoch, attempt, lease_id, expires_at from stint.dead
  union all select job_id, queue_id, state::text, epoch, attempt, lease_id, null from stint.finished
),
open_queue as (
  select id from stint.queue where closed_at is null
)`;

const RULES = {
  in_two_places: {
    rule: 'a job stands in no more than one place',
    text: `
select job_id, array_agg(state order by state) as states from place group by job_id having count(*) > 1`,
  },
  in_no_place: {
    rule: 'a job with a body stands somewhere',
    text: `
select j.id, j.queue_id from stint.job j join open_queue on open_queue.id = j.queue_id
where not exists (select from place where place.job_id = j.id)`,
  },
  without_body: {
    rule: 'a job that is not finished has its body, unless it died for want of it',
    text: `
select p.job_id, p.state from place p join open_queue on open_queue.id = p.queue_id
where p.state not in ('completed', 'cancelled')
  and not exists (select from stint.job j where j.id = p.job_id)
  and not exists (select from stint.dead d where d.job_id = p.job_id and d.reason = 'body_missing')`,
  },
  in_wrong_queue: {
    rule: 'body and place name the same queue, and it exists',
    text: `
select p.job_id, p.state, p.queue_id, j.queue_id as "bodyQueue" from place p
left join stint.job j on j.id = p.job_id
where j.queue_id <> p.queue_id or not exists (select from stint.queue q where q.id = p.queue_id)`,
  },
  wrong_counts: {
    rule: 'the counts of an open queue are what a recount finds',
    text: `,
counted as (
  select queue_id, sum(scheduled) as scheduled, sum(ready) as ready, sum(leased) as leased, sum(dead) as dead
  from stint.queue_count group by queue_id
),
recounted as (
  select queue_id, count(*) filter (where state = 'scheduled') as scheduled, count(*) filter (where state = 'ready') as ready,
    count(*) filter (where state = 'leased') as leased, count(*) filter (where state = 'dead') as dead
  from place group by queue_id
)
select q.id, row_to_json(c) as counted, row_to_json(r) as recounted
from open_queue q left join counted c on c.queue_id = q.id left join recounted r on r.queue_id = q.id
where (coalesce(c.scheduled, 0), coalesce(c.ready, 0), coalesce(c.leased, 0), coalesce(c.dead, 0))
  <> (coalesce(r.scheduled, 0), coalesce(r.ready, 0), coalesce(r.leased, 0), coalesce(r.dead, 0))`,
  },
  negative_counts: {
    rule: 'counts that only rise are never below nothing',
    text: `
select q.id, sum(c.enqueued) as enqueued, sum(c.completed) as completed, sum(c.failed) as failed
from open_queue q join stint.queue_count c on c.queue_id = q.id
group by q.id
having sum(c.enqueued) < 0 or sum(c.completed) < 0 or sum(c.failed) < 0`,
  },
  stray_attempt: {
    rule: 'an attempt is of a job that stands somewhere, and of an epoch that job has reached',
    text: `
select a.job_id, a.epoch, p.state, p.epoch as "jobEpoch" from stint.attempt a
left join place p on p.job_id = a.job_id
where p.job_id is null or a.epoch > p.epoch or a.epoch < 1`,
  },
  attempt_under_way: {
    rule: 'the epoch under way, or acked, has no ended attempt',
    text: `
select a.job_id, a.epoch, p.state from stint.attempt a
join place p on p.job_id = a.job_id and p.epoch = a.epoch
where p.state in ('leased', 'completed')`,
  },
  lease_id_twice: {
    rule: 'a lease id belongs to one lease',
    text: `,
used as (
  select job_id, epoch, lease_id from stint.attempt
  union select job_id, epoch, lease_id from place where lease_id is not null
)
select lease_id, count(*)::int as leases from used group by lease_id having count(*) > 1`,
  },
  attempts_disordered: {
    rule: 'attempts follow one another in the order of their epochs',
    text: `
select a.job_id, a.epoch, later.epoch as "laterEpoch" from stint.attempt a
join stint.attempt later on later.job_id = a.job_id and later.epoch > a.epoch
where later.started_at < a.started_at or a.ended_at > later.started_at or a.ended_at < a.started_at`,
  },
  attempts_beyond_leases: {
    rule: 'a job was leased as often as it has spent attempts, at least',
    text: `
select job_id, state, attempt, epoch from place
where attempt < 0 or epoch < attempt or (state = 'leased' and attempt < 1) or (epoch > 0) <> (lease_id is not null)`,
  },
  expiry_unwatched: {
    rule: 'a waiting job that expires is watched for it',
    text: `
select p.job_id, p.state, p.expires_at from place p join open_queue on open_queue.id = p.queue_id
where p.state in ('ready', 'scheduled', 'leased') and p.expires_at is not null
  and not exists (select from stint.job_expiry e where e.job_id = p.job_id)`,
  },
  stray_key: {
    rule: 'an idempotency key is of a queue that exists',
    text: `
select i.queue_id, i.key from stint.idempotency i
where not exists (select from stint.queue q where q.id = i.queue_id)`,
  },
  key_of_other_job: {
    rule: 'the key of a job that waits or runs names it',
    text: `
select j.id, j.idempotency_key as key, i.job_id as "namedJob" from stint.job j
join place p on p.job_id = j.id and p.state in ('ready', 'scheduled', 'leased') and p.epoch = 0
join open_queue on open_queue.id = j.queue_id
left join stint.idempotency i on i.queue_id = j.queue_id and i.key = j.idempotency_key
where j.idempotency_key is not null and i.job_id is distinct from j.id and j.dead_from is null
  and not exists (select from stint.queue q where q.id = j.queue_id and q.cut > 0)`,
  },
} as const;

/** Every rule that can be seen in the tables, the gravest first. */
export const INVARIANTS: readonly Invariant[] = Object.entries(RULES).map(([breach, { rule, text }]) => ({
  breach: breach as Breach,
  rule,
  // Of constants only, once, when the file is loaded.
  statement: { name: `invariant-${breach}`, text: `${PLACES}${text}\nlimit $1::int` },
}));
