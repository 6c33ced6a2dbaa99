import { blob, plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import type { BatchKind } from '../hotpath/batcher.js';
import type { Engine } from '../hotpath/engine.js';
import type { LeaseToken } from './lease-token.js';
import type { Settled } from './outcome.js';
import { inOrder, type SettleItem, withOutcomes } from './settle-items.js';

/** How a lease ends other than by its ack: it failed, its worker hands it back, or its worker never got it. */
export interface HandBack {
  readonly ended: 'nacked' | 'released' | 'undelivered';
  /** Milliseconds; undefined leaves it to the retry policy of a nack, otherwise means none. */
  readonly delay: number | undefined;
  readonly final: boolean;
  /** JSON text. */
  readonly error: string | undefined;
}

export interface HandedBack extends Settled {
  readonly ended?: HandBack['ended'];
  readonly fate?: 'ready' | 'scheduled' | 'dead' | 'cancelled';
  /** Microseconds; when it is scheduled. */
  readonly dueAt?: number;
}

/** Nacks, releases and returns of undelivered jobs, together in one statement. */
export const handBackKind: BatchKind<SettleItem<HandBack>, HandedBack> = {
  name: 'hand_back',
  connections: 'settle',
  maxRows: 500,
  maxBytes: 8 * 1024 * 1024,
  maxFlushes: 1,
  count: ({ outcome, ended, fate }, add) => {
    if (outcome !== 'OK') return;
    if (ended !== 'undelivered') add(ended!, 1);
    if (fate === 'dead' || fate === 'cancelled') add(fate, 1);
  },
  flush: async (connections, items) => {
    const done = await handBack(connections, inOrder(items));
    const results = await Promise.all(
      (['nacked', 'released', 'undelivered'] as const).map(async (ended) => {
        const mine = items.filter(({ item }) => item.ended === ended);
        const verb = ended === 'nacked' ? 'nack' : 'release';
        const tokens = mine.map(({ token }) => token);
        const outcomes = await withOutcomes<HandedBack>(connections, { verb, tokens }, ({ jobId }) => done.get(jobId));
        return mine.map((item, index) => [item, outcomes[index]!] as const);
      }),
    );
    const byItem = new Map(results.flat());
    return items.map((item) => byItem.get(item)!);
  },
};

/** Tells whoever waits for the queue's work, for its time, or for the job's end. */
export function announceHandedBack(engine: Engine, { queueId, jobId }: LeaseToken, { fate, dueAt }: HandedBack): void {
  if (fate === 'ready' || engine.queues.limits(queueId).limited) engine.wakeups.ready([queueId]);
  if (fate === 'scheduled') engine.wakeups.scheduled(dueAt!);
  else if (fate !== 'ready') engine.endings.ended([jobId]);
}

interface Fate extends Required<Pick<HandedBack, 'ended' | 'fate' | 'dueAt'>> {
  readonly jobId: string;
}

async function handBack(
  connections: Connections,
  sorted: readonly SettleItem<HandBack>[],
): Promise<Map<string, HandedBack>> {
  const errors = blob(sorted.map(({ item }) => item.error));
  const rows = await connections.query<Fate>(HAND_BACK, [
    plainArray(sorted.map(({ token }) => token.jobId)),
    plainArray([...new Set(sorted.map(({ token }) => token.queueId))]),
    plainArray(sorted.map(({ token }) => token.leaseId)),
    plainArray(sorted.map(({ item }) => item.ended)),
    plainArray(sorted.map(({ item }) => item.delay ?? (item.ended === 'nacked' ? -1 : 0))),
    plainArray(sorted.map(({ item }) => item.final)),
    errors.bytes,
    errors.starts,
    errors.lengths,
  ]);
  return new Map(rows.map(({ jobId, ended, fate, dueAt }) => [jobId, { outcome: 'OK', ended, fate, dueAt }]));
}

// Locks the lease rows in the order of their keys (sorted by the caller; primary key of lease). A lease that has run out is not
// ended here, noticed or not, but for an undelivered one, which nobody holds. The retry policy: min(max, initial * factor^(n-1)) or
// the n-th of the fixed delays, lengthened by up to `jitter`; powers that would overflow are seen by their logarithm first.
// `offset 0` keeps the look-up of job an index condition, also in a plan made while it was empty. `width_bucket` finds a job's place in
// the sorted array by halves.
const HAND_BACK: Statement = {
  name: 'hand-back',
  text: `with clock as materialized (select clock_timestamp() as at),
gone as (
  delete from lease
  where job_id = any($1::uuid[])
    and queue_id = any(array(select q.id from queue q where q.id = any($2::int[]) and q.closed_at is null))
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
    and (lease_expires_at > (select at from clock) or ($4::lease_end[])[width_bucket(job_id, $1::uuid[])] = 'undelivered')
  returning lease.*, width_bucket(job_id, $1::uuid[]) as place
),
told as (
  select g.*, ($4::lease_end[])[place] as ended, ($5::bigint[])[place] as delay, ($6::boolean[])[place] as final,
    convert_from(substring($7::bytea from ($8::int[])[place] for ($9::int[])[place]), 'UTF8') as error
  from gone g
),
weighed as (
  select t.*, clock.at, q.max_attempts as queue_attempts,
    coalesce(job.retry, q.retry) as policy,
    case when t.ended = 'nacked' then t.attempt else t.attempt - 1 end as spent
  from clock, told t
  join queue q on q.id = t.queue_id
  left join lateral (select job.retry from job where job.id = t.job_id and t.delay < 0 offset 0) job on true
),
fate as materialized (
  select w.*,
    case when w.cancel_requested then 'cancelled'
         when w.final or w.expires_at <= w.at or w.spent >= coalesce(w.max_attempts, w.queue_attempts) then 'dead'
         when w.delay = 0 or wait.ms = 0 then 'ready'
         else 'scheduled' end as fate,
    case when w.final then 'final' when w.expires_at <= w.at then 'expired' else 'attempts_spent' end::dead_reason as reason,
    w.at + wait.ms * interval '1 millisecond' as due_at
  from weighed w
  cross join lateral (
    select (w.policy->>'initial')::float8 as initial, (w.policy->>'factor')::float8 as factor, (w.policy->>'max')::float8 as most,
      coalesce((w.policy->>'jitter')::float8, 0) as jitter) p
  cross join lateral (
    select case
      when w.delay >= 0 then w.delay
      when w.policy->>'type' = 'fixed' then
        (w.policy->'delays'->>(least(w.attempt, jsonb_array_length(w.policy->'delays')) - 1))::float8 * (1 + random() * p.jitter)
      when p.initial = 0 then 0
      when p.most <= p.initial or (w.attempt - 1) * ln(p.factor) >= ln(p.most / p.initial) then p.most * (1 + random() * p.jitter)
      else p.initial * power(p.factor, w.attempt - 1) * (1 + random() * p.jitter) end as ms) wait
),
to_ready as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, job_id, at, expires_at, lease_id, epoch, spent, releases + (ended = 'released')::int, size, visibility_timeout,
    max_attempts, ended
  from fate
  where fate = 'ready'
  order by place
),
to_scheduled as (
  insert into scheduled (due_at, job_id, queue_id, rank, expires_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select due_at, job_id, queue_id, rank, expires_at, lease_id, epoch, spent, releases + (ended = 'released')::int, size, visibility_timeout,
    max_attempts, ended
  from fate
  where fate = 'scheduled'
),
to_dead as (
  insert into dead (job_id, ended_at, expires_at, lease_id, queue_id, rank, epoch, attempt, releases, size, visibility_timeout, max_attempts,
    reason, ended)
  select job_id, at, expires_at, lease_id, queue_id, rank, epoch, spent, releases + (ended = 'released')::int, size, visibility_timeout,
    max_attempts, reason, ended
  from fate
  where fate = 'dead'
),
to_finished as (
  insert into finished (job_id, queue_id, rank, state, ended, epoch, lease_id, attempt, releases, worker, started_at, ended_at)
  select job_id, queue_id, rank, 'cancelled', ended, epoch, lease_id, spent, releases + (ended = 'released')::int, worker, leased_at, at
  from fate
  where fate = 'cancelled'
),
history as (
  insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome, worker, error)
  select job_id, epoch, attempt, lease_id, leased_at, at, ended, worker, error
  from fate
  where ended <> 'undelivered'
  on conflict (job_id, epoch) do nothing
),
counted as (
  insert into queue_count (queue_id, leased, ready, scheduled, dead, failed)
  select queue_id, -count(*), count(*) filter (where fate = 'ready'), count(*) filter (where fate = 'scheduled'),
    count(*) filter (where fate = 'dead'), count(*) filter (where ended = 'nacked')
  from fate
  group by queue_id
)
select job_id as "jobId", ended, fate, (extract(epoch from due_at) * 1000000)::float8 as "dueAt" from fate`,
};
