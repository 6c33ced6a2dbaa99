import { sqlState, type Connection, type Connections, type Statement } from '../db/pool.js';
import { blob, plainArray, textArray } from '../db/literals.js';
import type { BatchKind } from '../hotpath/batcher.js';
import { ServiceError } from '../errors.js';
import type { EnqueueItem } from './enqueue-fields.js';
import type { JobState } from './job.js';

/** What belongs together: all of it is stored or nothing. */
export type EnqueueUnit = readonly EnqueueItem[];

export interface Enqueued {
  readonly id: string;
  readonly state: JobState | 'gone';
  /** Microseconds. */
  readonly enqueuedAt: number;
  readonly runAt: number;
  readonly deduplicated: boolean;
}

/** The queue was deleted after its name was looked up: look again, and enqueue anew. */
export class QueueClosed extends Error {
  override readonly name = 'QueueClosed';
  constructor(readonly queueId: number) {
    super('the queue is closed');
  }
}

/** An id that collides is there at the next look: our insert has waited for the other's commit. More looks would hide a fault. */
export const MOST_LOOKS = 5;

export const MAX_FLUSH_ROWS = 1_000;
export const MAX_FLUSH_BYTES = 8 * 1024 * 1024;

/** Enqueues without idempotency keys, of many callers, in one statement. */
export const enqueueKind: BatchKind<EnqueueUnit, Enqueued[]> = {
  name: 'enqueue',
  connections: 'enqueue',
  maxRows: MAX_FLUSH_ROWS,
  maxBytes: MAX_FLUSH_BYTES,
  maxFlushes: 1,
  count: countEnqueued,
  flush: async (connections, units, repeated) => {
    if (!repeated) return insertUnits(connections, units);
    return storeAgain(connections, units);
  },
};

/** From so many bytes on a unit waits for others of its like, so that small ones never wait for what it takes to store it. */
export const LARGE_UNIT_BYTES = 64 * 1024;

/** The same for large units, beside the others. */
export const enqueueLargeKind: BatchKind<EnqueueUnit, Enqueued[]> = { ...enqueueKind, name: 'enqueue-large' };

/** Counts a unit's jobs, for metrics. */
export function countEnqueued(
  jobs: readonly Enqueued[],
  add: (event: 'enqueued' | 'deduplicated', jobs: number) => void,
): void {
  const repeated = jobs.filter(({ deduplicated }) => deduplicated).length;
  if (jobs.length > repeated) add('enqueued', jobs.length - repeated);
  if (repeated > 0) add('deduplicated', repeated);
}

/**
 * After a lost connection: what the first try has stored is there under its ids; only the rest is sent again. While the old
 * backend has not ended, its ids collide with ours (23505), and we look again.
 */
async function storeAgain(connections: Connections, units: readonly EnqueueUnit[]): Promise<(Enqueued[] | Error)[]> {
  for (let tries = 1; ; tries += 1) {
    const known = await findStored(connections, units);
    const missing = units.filter((unit) => !known.has(unit[0]!.id));
    try {
      const results = missing.length === 0 ? [] : await insertUnits(connections, missing);
      return units.map((unit) => results[missing.indexOf(unit)] ?? unit.map((item) => known.get(item.id)!));
    } catch (error) {
      if (!isStoredMeanwhile(error) || tries === MOST_LOOKS) throw error;
    }
  }
}

/** Those of the units' jobs that are stored, by id: what an earlier try has done whose answer was lost. */
export async function findStored(
  connections: Connections,
  units: readonly EnqueueUnit[],
): Promise<Map<string, Enqueued>> {
  const ids = units.flatMap((unit) => unit.map(({ id }) => id));
  const found = await connections.query<{ id: string; enqueuedAt: number; runAt: number }>(FIND, [plainArray(ids)]);
  return new Map(found.map((row) => [row.id, fresh(row)]));
}

/** Whether the error says that an id is stored already: by an earlier try, whose backend had not ended when we looked. */
export function isStoredMeanwhile(error: unknown): boolean {
  return sqlState(error) === '23505';
}

/**
 * Inserts the jobs of the units whose queues take them. Returns by unit what was stored, or the error that keeps all of this
 * unit out; the others are stored.
 */
export async function insertUnits(
  connection: Connections | Connection,
  units: readonly EnqueueUnit[],
): Promise<(Enqueued[] | Error)[]> {
  const items = units.flat();
  const rows = await connection.query<InsertedRow>(ENQUEUE, parameters(units, items));
  const { now } = rows[0]!;
  const special = new Map(rows.slice(1).map((row) => [row.ord, row]));
  let ord = 0;
  return units.map((unit) => {
    let refusal: Error | undefined;
    const results = unit.map((item): Enqueued => {
      const row = special.get((ord += 1));
      if (row !== undefined && row.fault !== null) refusal ??= refusalOf(row.fault, item);
      const dueAt = row?.dueAt ?? now;
      return {
        id: item.id,
        state: dueAt > now ? 'scheduled' : 'ready',
        enqueuedAt: now,
        runAt: dueAt,
        deduplicated: false,
      };
    });
    return refusal ?? results;
  });
}

interface InsertedRow {
  readonly ord: number;
  readonly now: number;
  readonly dueAt: number | null;
  readonly fault: 'closed' | 'full' | 'unit' | null;
}

function refusalOf(fault: 'closed' | 'full' | 'unit', item: EnqueueItem): Error | undefined {
  if (fault === 'unit') return undefined;
  if (fault === 'closed') return new QueueClosed(item.queueId);
  return new ServiceError('BACKLOG_FULL', 'the queue holds as many waiting jobs as its maxBacklog allows', {
    retryAfter: 1,
  });
}

function fresh(row: { id: string; enqueuedAt: number; runAt: number }): Enqueued {
  const state = row.runAt > row.enqueuedAt ? 'scheduled' : 'ready';
  return { id: row.id, state, enqueuedAt: row.enqueuedAt, runAt: row.runAt, deduplicated: false };
}

function parameters(units: readonly EnqueueUnit[], items: readonly EnqueueItem[]): unknown[] {
  const bodies = blob(items.map(({ payload }) => payload));
  const unitOf = units.flatMap((unit, index) => unit.map(() => index));
  const seen = new Map<number, number>();
  const nth = items.map(({ queueId }) => {
    const n = (seen.get(queueId) ?? 0) + 1;
    seen.set(queueId, n);
    return n;
  });
  return [
    plainArray(items.map(({ id }) => id)),
    plainArray(items.map(({ queueId }) => queueId)),
    plainArray(items.map(({ rank }) => rank)),
    plainArray(items.map(({ size }) => size)),
    plainArray(unitOf),
    plainArray(nth),
    bodies.bytes,
    bodies.starts,
    bodies.lengths,
    textArray(items.map(({ kind }) => kind)),
    textArray(items.map(({ contentType }) => contentType)),
    plainArray(items.map(({ isJson }) => isJson)),
    textArray(items.map(({ headers }) => headers)),
    plainArray(items.map(({ delay }) => delay)),
    plainArray(items.map(({ runAt }) => runAt)),
    plainArray(items.map(({ maxAttempts }) => maxAttempts)),
    plainArray(items.map(({ visibilityTimeout }) => visibilityTimeout)),
    textArray(items.map(({ retry }) => retry)),
    textArray(items.map(({ idempotency }) => idempotency?.key)),
    plainArray(items.map(({ expiresAt }) => expiresAt)),
  ];
}

// Locks nothing but the rows it inserts; may run beside everything. The queue row (primary key) says whether the queue is open
// and how much it may hold; the backlog is the sum of its counts, read once per queue (Memoize), and only where there is a bound.
// Jobs that a late commit puts into a queue just purged or closed count as enqueued before that: both overlapped.
const ENQUEUE: Statement = {
  name: 'enqueue',
  text: `with clock as materialized (select clock_timestamp() as at),
given as materialized (
  select i.*, clock.at, greatest(clock.at, coalesce(
      clock.at + i.delay * interval '1 millisecond',
      timestamptz 'epoch' + i.run_at * interval '1 microsecond')) as due_at,
    'epoch'::timestamptz + i.expires * interval '1 microsecond' as expires_at,
    case when q.id is null or q.closed_at is not null then 'closed'
         when coalesce(backlog.waiting, 0) + i.nth > q.max_backlog then 'full' end as fault
  from clock, unnest($1::uuid[], $2::int[], $3::smallint[], $4::int[], $5::int[], $6::int[], $8::int[], $9::int[], $10::text[],
      $11::text[], $12::bool[], $13::text[], $14::bigint[], $15::bigint[], $16::int[], $17::int[], $18::text[], $19::text[],
      $20::bigint[]) with ordinality
    as i(id, queue_id, rank, size, unit, nth, start, length, kind, content_type, is_json, headers, delay, run_at, max_attempts,
      visibility_timeout, retry, idempotency_key, expires, ord)
  left join queue q on q.id = i.queue_id
  left join lateral (
    select sum(c.scheduled + c.ready) as waiting from queue_count c
    where c.queue_id = q.id and q.max_backlog is not null) backlog on true
),
item as materialized (
  select *, bool_and(fault is null) over (partition by unit) as sound from given
),
body as (
  insert into job (id, queue_id, kind, payload, content_type, is_json, headers, priority, max_attempts, visibility_timeout, retry,
    idempotency_key, expires_at, run_at, created_at)
  select id, queue_id, kind, substring($7::bytea from start for length), content_type, is_json, headers, -rank, max_attempts,
    visibility_timeout, retry::jsonb, idempotency_key, expires_at, due_at, at
  from item
  where sound
),
ready_now as (
  insert into ready (queue_id, rank, job_id, ready_at, expires_at, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select queue_id, rank, id, at, expires_at, 0, 0, 0, size, visibility_timeout, max_attempts, 'none'
  from item
  where sound and due_at <= at
  order by ord
),
ready_later as (
  insert into scheduled (due_at, job_id, queue_id, rank, expires_at, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select due_at, id, queue_id, rank, expires_at, 0, 0, 0, size, visibility_timeout, max_attempts, 'none'
  from item
  where sound and due_at > at
  order by ord
),
expiring as (
  insert into job_expiry (expires_at, job_id)
  select expires_at, id from item where sound and expires_at is not null
),
counted as (
  insert into queue_count (queue_id, scheduled, ready, enqueued)
  select queue_id, count(*) filter (where due_at > at), count(*) filter (where due_at <= at), count(*)
  from item
  where sound
  group by queue_id
)
select null::int as ord, (extract(epoch from at) * 1000000)::float8 as now, null::float8 as "dueAt", null as fault from clock
union all
select ord::int, null, (extract(epoch from due_at) * 1000000)::float8, case when not sound then coalesce(fault, 'unit') end
from item
where not sound or due_at > at`,
};

const FIND: Statement = {
  name: 'enqueue-find',
  text: `select id, (extract(epoch from created_at) * 1000000)::float8 as "enqueuedAt", (extract(epoch from run_at) * 1000000)::float8 as "runAt"
from job
where id = any($1::uuid[])`,
};
