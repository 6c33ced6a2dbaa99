import { Type, type Static } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { checkJsonText } from '../core/payload.js';
import { type InvalidItem, JsonText, LenientArray } from '../core/wire.js';
import { blob, plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import type { BatchKind } from '../hotpath/batcher.js';
import type { Engine } from '../hotpath/engine.js';
import type { LeaseToken } from './lease-token.js';
import { oneLease } from './one-lease.js';
import { outcomeFields } from './outcome.js';
import { inOrder, leaseToken, settleEach, type SettleItem, withOutcomes } from './settle-items.js';
import { settleFacts } from './span-facts.js';

const RESULT_BYTES = 64 * 1024;

export const AckItem = Type.Object({
  leaseToken,
  result: Type.Optional(
    JsonText({ description: 'What came of the job: a JSON value of at most 64 KiB. A larger one is dropped.' }),
  ),
});
export type AckItem = Static<typeof AckItem>;

export const AckResult = Type.Object({
  ...outcomeFields,
  resultDropped: Type.Optional(
    Type.Boolean({ description: 'True when the job is completed but its result could not be kept.' }),
  ),
});
export type AckResult = Static<typeof AckResult>;

export const ack = defineOperation({
  name: 'Ack',
  group: 'Jobs',
  summary: 'Acknowledge jobs: they are done',
  description:
    'An ack that comes after the lease has expired still counts while nobody has leased the job since: it spares a second run.',
  scopes: ['work'],
  span: {
    verb: 'ack',
    type: 'settle',
    facts: (context: Context<Engine>, { items }, output) => settleFacts(context, items, output?.results),
  },
  http: [
    { method: 'POST', path: '/v1/leases/ack' },
    {
      method: 'POST',
      path: '/v1/jobs/:id/ack',
      suffix: 'One',
      summary: 'Acknowledge one job',
      form: oneLease(AckItem, AckResult),
    },
  ],
  input: Type.Object({ items: LenientArray(AckItem, { minItems: 1, maxItems: 1000 }) }),
  output: Type.Object({ results: Type.Array(AckResult) }),
  example: { items: [{ leaseToken: '…', result: { sent: true } }] },
  run: async (context: Context<Engine>, { items }) => ({ results: await ackEach(context, items) }),
});

/** Acks each item; results come in their order. */
export function ackEach(context: Context<Engine>, items: readonly (AckItem | InvalidItem)[]): Promise<AckResult[]> {
  const settling = {
    kind: ackKind,
    sizeOf: ({ result }: AckItem) => result?.length ?? 0,
    announce: (engine: Engine, { jobId, queueId }: LeaseToken) => {
      engine.endings.ended([jobId]);
      if (engine.queues.limits(queueId).limited) engine.wakeups.ready([queueId]);
    },
  };
  return settleEach(context, settling, items);
}

export const ackKind: BatchKind<SettleItem<AckItem>, AckResult> = {
  name: 'ack',
  connections: 'settle',
  maxRows: 500,
  maxBytes: 8 * 1024 * 1024,
  maxFlushes: 1,
  count: ({ outcome }, add) => outcome === 'OK' && add('acked', 1),
  flush: async (connections, items) => {
    const sorted = inOrder(items);
    const done = new Set(await acknowledge(connections, ACK, sorted));
    const late = sorted.filter(({ token }) => !done.has(token.jobId));
    if (late.length > 0) for (const id of await acknowledge(connections, LATE_ACK, late)) done.add(id);
    const dropped = new Set(items.filter(({ item }) => isDropped(item)).map(({ token }) => token.jobId));
    const tokens = items.map(({ token }) => token);
    return withOutcomes<AckResult>(connections, { verb: 'ack', tokens }, ({ jobId }) =>
      done.has(jobId) ? { outcome: 'OK', resultDropped: dropped.has(jobId) ? true : undefined } : undefined,
    );
  },
};

/** A result that cannot be kept never keeps a job from being completed. */
function isDropped({ result }: AckItem): boolean {
  return result !== undefined && (Buffer.byteLength(result) > RESULT_BYTES || checkJsonText(result) !== undefined);
}

async function acknowledge(
  connections: Connections,
  statement: Statement,
  sorted: readonly SettleItem<AckItem>[],
): Promise<string[]> {
  const results = blob(sorted.map(({ item }) => (isDropped(item) ? undefined : item.result)));
  const rows = await connections.query<{ jobId: string }>(statement, [
    plainArray(sorted.map(({ token }) => token.jobId)),
    plainArray([...new Set(sorted.map(({ token }) => token.queueId))]),
    plainArray(sorted.map(({ token }) => token.leaseId)),
    results.bytes,
    results.starts,
    results.lengths,
  ]);
  return rows.map(({ jobId }) => jobId);
}

// Locks the lease rows in the order of their keys (sorted by the caller; primary key of lease), so that two settles that overlap
// never wait in a circle. A lease that somebody else ends meanwhile is gone when the lock is had, and is not acked here. `width_bucket`
// finds a job's place in the sorted array by halves; `array_position` reads it from its beginning: two fifths of what an ack of 500
// cost. A job that stands in finished already (it never should) is passed over, by a scalar sub-select: `on conflict` would cost a
// speculative insert a row, and `not exists` is a scan of the whole index in a plan made while it was empty.
const ACK: Statement = {
  name: 'ack',
  text: `with clock as materialized (select clock_timestamp() as at),
gone as (
  delete from lease
  where job_id = any($1::uuid[])
    and queue_id = any(array(select q.id from queue q where q.id = any($2::int[]) and q.closed_at is null))
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
  returning lease.*, width_bucket(job_id, $1::uuid[]) as place
),
kept as (
  insert into finished (job_id, queue_id, rank, state, ended, epoch, lease_id, attempt, releases, worker, started_at, ended_at, result)
  select job_id, queue_id, rank, 'completed', 'acked', epoch, lease_id, attempt, releases, worker, leased_at, clock.at,
    substring($4::bytea from ($5::int[])[place] for ($6::int[])[place])
  from clock, gone
  where (select f.epoch from finished f where f.job_id = gone.job_id) is null
),
counted as (
  insert into queue_count (queue_id, leased, completed)
  select queue_id, -count(*), count(*) from gone group by queue_id
)
select job_id as "jobId" from gone`,
};

// An ack after the lease has ended by itself, while nobody has leased the job since. Unique indexes on job_id of ready and
// scheduled, primary key of dead. Beside a claim of the same job one of the two gets the row, the other finds it gone. The expired
// attempt is history rewritten: the job was done in it, and that is its last, whatever a redrive has set its count to since.
// `queue_id + 0` leaves the planner no index but those on job_id: PostgreSQL 15 would walk all that the queue has scheduled or dead.
const LATE_ACK: Statement = {
  name: 'ack-late',
  text: `with clock as materialized (select clock_timestamp() as at),
open_queue as materialized (
  select q.id, q.cut from queue q where q.id = any($2::int[]) and q.closed_at is null
),
from_ready as (
  delete from ready
  where job_id = any($1::uuid[])
    and queue_id + 0 = any(array(select id from open_queue))
    and pos > (select cut from open_queue where id = ready.queue_id)
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
    and ended in ('expired', 'undelivered')
  returning job_id, queue_id, rank, epoch, lease_id, attempt, releases, ended
),
from_scheduled as (
  delete from scheduled
  where job_id = any($1::uuid[])
    and queue_id + 0 = any(array(select id from open_queue))
    and pos > (select cut from open_queue where id = scheduled.queue_id)
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
    and ended in ('expired', 'undelivered')
  returning job_id, queue_id, rank, epoch, lease_id, attempt, releases, ended
),
from_dead as (
  delete from dead
  where job_id = any($1::uuid[])
    and queue_id + 0 = any(array(select id from open_queue))
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
    and ended = 'expired'
  returning job_id, queue_id, rank, epoch, lease_id, attempt, releases, ended
),
gone as (
  select *, 1 as ready, 0 as scheduled, 0 as dead from from_ready
  union all
  select *, 0, 1, 0 from from_scheduled
  union all
  select *, 0, 0, 1 from from_dead
),
history as (
  delete from attempt
  where job_id = any(array(select job_id from gone)) and epoch = any(array(select epoch from gone))
    and lease_id = ($3::bigint[])[width_bucket(job_id, $1::uuid[])]
  returning job_id, attempt, worker, started_at
),
kept as (
  insert into finished (job_id, queue_id, rank, state, ended, epoch, lease_id, attempt, releases, worker, started_at, ended_at, result)
  select g.job_id, g.queue_id, g.rank, 'completed', 'acked', g.epoch, g.lease_id,
    case when g.ended = 'undelivered' then g.attempt + 1 else coalesce(h.attempt, g.attempt) end, g.releases, h.worker, h.started_at, clock.at,
    substring($4::bytea from ($5::int[])[width_bucket(g.job_id, $1::uuid[])] for ($6::int[])[width_bucket(g.job_id, $1::uuid[])])
  from clock, gone g
  left join history h on h.job_id = g.job_id
  on conflict (job_id) do nothing
),
counted as (
  insert into queue_count (queue_id, ready, scheduled, dead, completed)
  select queue_id, -sum(ready), -sum(scheduled), -sum(dead), count(*) from gone group by queue_id
)
select job_id as "jobId" from gone`,
};
