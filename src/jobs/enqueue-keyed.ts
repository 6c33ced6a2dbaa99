import type { Connection, Statement } from '../db/pool.js';
import { blob, plainArray, textArray } from '../db/literals.js';
import { ServiceError } from '../errors.js';
import type { BatchKind } from '../hotpath/batcher.js';
import type { EnqueueItem } from './enqueue-fields.js';
import {
  countEnqueued,
  findStored,
  insertUnits,
  isStoredMeanwhile,
  MOST_LOOKS,
  MAX_FLUSH_BYTES,
  MAX_FLUSH_ROWS,
  type Enqueued,
  type EnqueueUnit,
} from './enqueue-flush.js';
import type { JobState } from './job.js';

/**
 * Enqueues with idempotency keys, in one transaction: first the keys, sorted, then the bodies of those whose key was free,
 * then a later look at whose job the other keys name. A transaction that holds a key makes the others wait for it, so that
 * nobody is told of a job that is rolled back. A unit that cannot be stored is left out and the rest is done again. After a lost
 * connection what the first try has stored is there under its ids, and only the rest is sent again.
 */
export const enqueueKeyedKind: BatchKind<EnqueueUnit, Enqueued[]> = {
  name: 'enqueue_keyed',
  connections: 'enqueue',
  maxRows: MAX_FLUSH_ROWS,
  maxBytes: MAX_FLUSH_BYTES,
  maxFlushes: 1,
  count: countEnqueued,
  flush: async (connections, units, repeated) => {
    const results: (Enqueued[] | Error)[] = new Array<Enqueued[] | Error>(units.length);
    let left = units.map((unit, index) => ({ unit, index }));
    for (let round = 0; left.length > 0; round += 1) {
      const now = left;
      const nowUnits = now.map(({ unit }) => unit);
      const stored = repeated ? await findStored(connections, nowUnits) : NOTHING;
      try {
        const done = await connections.transaction((connection) => storeKeyed(connection, nowUnits, { round, stored }));
        now.forEach(({ index }, place) => (results[index] = done[place]!));
        left = [];
      } catch (error) {
        if (repeated && isStoredMeanwhile(error) && round < MOST_LOOKS) continue;
        if (!(error instanceof Refused)) throw error;
        for (const [place, reason] of error.reasons) results[now[place]!.index] = reason;
        left = now.filter((_, place) => !error.reasons.has(place));
      }
    }
    return results;
  },
};

/** Rolls the transaction back: these units (by place) are refused, the others are to be tried again. */
class Refused extends Error {
  constructor(readonly reasons: ReadonlyMap<number, Error>) {
    super('some units are refused');
  }
}

/** The key was lapsed or its row gone between two statements: everything is to be tried again. */
const KEY_MOVED = new Map<number, Error>();
const MOVES = 3;

interface Try {
  readonly round: number;
  /** What an earlier try has stored. */
  readonly stored: ReadonlyMap<string, Enqueued>;
}

const NOTHING: ReadonlyMap<string, Enqueued> = new Map();

async function storeKeyed(
  connection: Connection,
  units: readonly EnqueueUnit[],
  { round, stored }: Try,
): Promise<Enqueued[][]> {
  const own = units.map(withoutRepeats);
  const keyed = own
    .flatMap(({ first }) => first.filter(hasKey))
    .filter(({ id }) => !stored.has(id))
    .sort(byKey);
  const taken = new Set(
    (await connection.query<{ jobId: string }>(TAKE_KEYS, keyParameters(keyed))).map(({ jobId }) => jobId),
  );
  const losers = keyed.filter(({ id }) => !taken.has(id));
  const earlier = await readEarlier(connection, losers, round);
  const refusals = new Map<number, Error>();
  const fresh = own.map(({ first }, place) => {
    for (const item of first) {
      const job = earlier.get(item.id);
      if (job !== undefined && !job.same) refusals.set(place, reused(item));
    }
    return first.filter(({ id }) => !earlier.has(id) && !stored.has(id));
  });
  own.forEach(({ clash }, place) => {
    if (clash !== undefined) refusals.set(place, reused(clash));
  });
  if (refusals.size > 0) throw new Refused(refusals);
  const places = fresh.flatMap((items, place) => (items.length > 0 ? [place] : []));
  const inserted =
    places.length === 0
      ? []
      : await insertUnits(
          connection,
          places.map((place) => fresh[place]!),
        );
  inserted.forEach((result, index) => {
    if (result instanceof Error) refusals.set(places[index]!, result);
  });
  if (refusals.size > 0) throw new Refused(refusals);
  const made = new Map(inserted.flatMap((result) => (result as Enqueued[]).map((job) => [job.id, job])));
  return units.map((unit, place) =>
    answer(unit, own[place]!, (id) => made.get(id) ?? stored.get(id) ?? earlier.get(id)!.job),
  );
}

interface Own {
  /** The items of a unit but for those whose key an earlier one of it bears. */
  readonly first: EnqueueItem[];
  /** By an item's id, the earlier item that it repeats. */
  readonly repeats: Map<string, string>;
  /** An item that bears an earlier one's key with another fingerprint. */
  readonly clash: EnqueueItem | undefined;
}

function withoutRepeats(unit: EnqueueUnit): Own {
  const byName = new Map<string, EnqueueItem>();
  const repeats = new Map<string, string>();
  let clash: EnqueueItem | undefined;
  const first = unit.filter((item) => {
    if (!hasKey(item)) return true;
    const name = keyName(item);
    const before = byName.get(name);
    if (before === undefined) {
      byName.set(name, item);
      return true;
    }
    if (!before.idempotency!.fingerprint.equals(item.idempotency.fingerprint)) clash ??= item;
    repeats.set(item.id, before.id);
    return false;
  });
  return { first, repeats, clash };
}

function answer(unit: EnqueueUnit, own: Own, jobOf: (id: string) => Enqueued): Enqueued[] {
  return unit.map(({ id }) => {
    const before = own.repeats.get(id);
    return before === undefined ? jobOf(id) : { ...jobOf(before), deduplicated: true };
  });
}

interface Earlier {
  readonly same: boolean;
  readonly job: Enqueued;
}

interface EarlierRow {
  readonly ord: number;
  readonly jobId: string;
  readonly same: boolean;
  readonly state: JobState | null;
  readonly enqueuedAt: number | null;
  readonly runAt: number | null;
}

async function readEarlier(
  connection: Connection,
  losers: readonly (EnqueueItem & KeyedPart)[],
  round: number,
): Promise<Map<string, Earlier>> {
  if (losers.length === 0) return new Map();
  const rows = await connection.query<EarlierRow>(READ_KEYS, readParameters(losers));
  if (rows.length < losers.length) {
    if (round >= MOVES)
      throw new ServiceError('UNAVAILABLE', 'an idempotency key keeps changing hands', { retryAfter: 1 });
    throw new Refused(KEY_MOVED);
  }
  return new Map(
    rows.map((row) => {
      const item = losers[row.ord - 1]!;
      const at = row.enqueuedAt ?? timeOf(row.jobId);
      const state: Enqueued['state'] = row.state ?? 'gone';
      const job = { id: row.jobId, state, enqueuedAt: at, runAt: row.runAt ?? at };
      // Our own id under the key: an earlier try of this very flush, whose answer was lost, has stored it.
      return [item.id, { same: row.same, job: { ...job, deduplicated: row.jobId !== item.id } }];
    }),
  );
}

/** The instant in a UUID v7 (RFC 9562), in microseconds. */
function timeOf(id: string): number {
  return parseInt(id.slice(0, 8) + id.slice(9, 13), 16) * 1_000;
}

interface KeyedPart {
  readonly idempotency: NonNullable<EnqueueItem['idempotency']>;
}

function hasKey(item: EnqueueItem): item is EnqueueItem & KeyedPart {
  return item.idempotency !== undefined;
}

/** Names a queue's key among the keys of a flush. */
export function keyName(item: EnqueueItem): string {
  return `${item.queueId} ${item.idempotency!.key}`;
}

function byKey(a: EnqueueItem & KeyedPart, b: EnqueueItem & KeyedPart): number {
  if (a.queueId !== b.queueId) return a.queueId - b.queueId;
  return Buffer.compare(Buffer.from(a.idempotency.key), Buffer.from(b.idempotency.key));
}

function reused(item: EnqueueItem): ServiceError {
  const { field } = item.idempotency!;
  const message = 'was used before with another kind, content type or payload';
  return new ServiceError('IDEMPOTENCY_KEY_REUSED', `${field} ${message}`, { fields: [{ field, message }] });
}

function keyParameters(items: readonly (EnqueueItem & KeyedPart)[]): unknown[] {
  const prints = blob(items.map(({ idempotency }) => idempotency.fingerprint));
  return [
    plainArray(items.map(({ queueId }) => queueId)),
    textArray(items.map(({ idempotency }) => idempotency.key)),
    plainArray(items.map(({ id }) => id)),
    prints.bytes,
    plainArray(items.map(({ idempotency }) => idempotency.window)),
  ];
}

function readParameters(items: readonly (EnqueueItem & KeyedPart)[]): unknown[] {
  return keyParameters(items).slice(0, 4);
}

// Locks the rows of its keys, in their order, so that two of these never wait for each other in a circle; whoever comes second
// waits for the first to commit or roll back. Primary key of idempotency; for a lapsed key the unique indexes on job_id
// (`offset 0` keeps the planner from hashing those tables whole).
const TAKE_KEYS: Statement = {
  name: 'idempotency-take',
  text: `insert into idempotency (queue_id, key, job_id, fingerprint, expires_at)
select queue_id, key, job_id, substring($4::bytea from (ord::int - 1) * 16 + 1 for 16), clock_timestamp() + idle * interval '1 millisecond'
from unnest($1::int[], $2::text[], $3::uuid[], $5::bigint[]) with ordinality as i(queue_id, key, job_id, idle, ord)
order by queue_id, key collate "C"
on conflict (queue_id, key) do update
set job_id = excluded.job_id, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at
where exists (
    select from queue q
    where q.id = idempotency.queue_id and q.cut > 0
      and (exists (select from ready r where r.job_id = idempotency.job_id and r.pos <= q.cut offset 0)
        or exists (select from scheduled s where s.job_id = idempotency.job_id and s.pos <= q.cut offset 0)))
  or (idempotency.expires_at <= clock_timestamp()
    and not exists (select from ready r where r.job_id = idempotency.job_id offset 0)
    and not exists (select from scheduled s where s.job_id = idempotency.job_id offset 0)
    and not exists (select from lease l where l.job_id = idempotency.job_id offset 0))
returning job_id as "jobId"`,
};

// Reads only; sees what is committed by then, and its own transaction. Primary keys; `offset 0` keeps each look-up an index
// condition, also in a plan made while the tables were empty.
const READ_KEYS: Statement = {
  name: 'idempotency-read',
  text: `select i.ord::int, d.job_id as "jobId", d.fingerprint = substring($4::bytea from (i.ord::int - 1) * 16 + 1 for 16) as same,
  s.state, (extract(epoch from job.created_at) * 1000000)::float8 as "enqueuedAt",
  (extract(epoch from coalesce(s.due_at, job.run_at)) * 1000000)::float8 as "runAt"
from unnest($1::int[], $2::text[], $3::uuid[]) with ordinality as i(queue_id, key, job_id, ord)
cross join lateral (select * from idempotency d where d.queue_id = i.queue_id and d.key = i.key offset 0) d
left join lateral (select * from job where job.id = d.job_id offset 0) job on true
left join lateral (select state, due_at from job_state where job_state.job_id = d.job_id limit 1) s on true`,
};
