import { plainArray } from '../db/literals.js';
import type { Connection, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { EnqueueItem } from '../jobs/enqueue-fields.js';
import { insertUnits } from '../jobs/enqueue-flush.js';
import { newJobId } from '../jobs/job-id.js';
import { WORTH_TELLING_MS } from './delivery-settings.js';
import { type DeadPayload, type Death, diedData } from './died.js';
import { eventBody } from './event-body.js';

const EVENTS = 100;
const CHUNK_ROWS = 500;
const CHUNK_BYTES = 4 * 1024 * 1024;
const PAYLOAD_BYTES = 64 * 1024;

export interface FannedOut {
  readonly events: number;
  readonly deliveries: number;
  /** Whether any tenant has a webhook. */
  readonly isWanted: boolean;
  /** Whether more events may wait. */
  readonly isMore: boolean;
}

/**
 * Makes a delivery of each of up to 100 events for each webhook that asks for it, and deletes the events, in one transaction: so an event
 * becomes a delivery once, whoever does this at the same time.
 */
export async function fanOut({ database, wakeups }: Engine): Promise<FannedOut> {
  const [look] = await database.tasks.query<{ isWaiting: boolean; isWanted: boolean }>(LOOK);
  const { isWaiting, isWanted } = look!;
  if (!isWaiting) return { events: 0, deliveries: 0, isWanted, isMore: false };
  const { events, queueIds } = await database.tasks.transaction(async (connection) => {
    const events = await connection.query<TakenEvent>(TAKE, [EVENTS]);
    if (events.length === 0) return { events: 0, queueIds: [] };
    const seqs = events.map(({ seq }) => seq);
    const wanted = await connection.query<Wanted>(MATCH, [seqs]);
    const payloads = await payloadsOf(connection, events, wanted);
    const items = itemsOf(events, wanted, payloads);
    await store(connection, items);
    await connection.query(DELETE, [seqs]);
    return { events: events.length, queueIds: items.map(({ queueId }) => queueId) };
  });
  wakeups.ready(new Set(queueIds));
  return { events, deliveries: queueIds.length, isWanted, isMore: events === EVENTS };
}

interface TakenEvent {
  readonly seq: string;
  readonly id: string;
  readonly at: number;
  readonly type: string;
  readonly queue: string;
  readonly jobId: string | null;
  readonly data: unknown;
}

interface Wanted {
  readonly seq: string;
  readonly queueId: number;
  readonly includePayload: boolean;
}

type Payloads = ReadonlyMap<string, DeadPayload>;

async function payloadsOf(
  connection: Connection,
  events: readonly TakenEvent[],
  wanted: readonly Wanted[],
): Promise<Payloads> {
  const asking = new Set(wanted.filter(({ includePayload }) => includePayload).map(({ seq }) => seq));
  const jobIds = events.flatMap(({ seq, jobId }) => (jobId !== null && asking.has(seq) ? [jobId] : []));
  if (jobIds.length === 0) return new Map();
  const rows = await connection.query<DeadPayload & { id: string }>(PAYLOADS, [plainArray(jobIds), PAYLOAD_BYTES]);
  return new Map(rows.map(({ id, ...payload }) => [id, payload]));
}

function itemsOf(events: readonly TakenEvent[], wanted: readonly Wanted[], payloads: Payloads): EnqueueItem[] {
  const bySeq = new Map(events.map((event) => [event.seq, event]));
  const bodies = new Map<string, string>();
  return wanted.map(({ seq, queueId, includePayload }) => {
    const event = bySeq.get(seq)!;
    const form = `${seq} ${String(includePayload)}`;
    const payload = bodies.get(form) ?? bodyOf(event, includePayload ? payloads : undefined);
    bodies.set(form, payload);
    return itemOf(event, queueId, payload);
  });
}

function bodyOf({ id, type, at, queue, jobId, data }: TakenEvent, payloads: Payloads | undefined): string {
  if (jobId === null) return eventBody({ id, type, at, data: JSON.stringify(data) });
  const dead = { jobId, queue, diedAt: at, death: data as Death };
  return eventBody({ id, type, at, data: diedData(dead, payloads?.get(jobId)) });
}

function itemOf({ id, type, at }: TakenEvent, queueId: number, payload: string): EnqueueItem {
  const headers = JSON.stringify({ 'webhook-id': id });
  return {
    id: newJobId(),
    queueId,
    rank: 0,
    payload,
    size: Buffer.byteLength(payload) + headers.length,
    kind: type,
    contentType: undefined,
    isJson: true,
    headers,
    delay: undefined,
    runAt: undefined,
    maxAttempts: undefined,
    visibilityTimeout: undefined,
    retry: undefined,
    expiresAt: at + WORTH_TELLING_MS * 1_000,
    idempotency: undefined,
  };
}

/** Stores them; what a queue that is full or closed does not take is counted and left out. */
async function store(connection: Connection, items: readonly EnqueueItem[]): Promise<void> {
  const left: number[] = [];
  for (const chunk of chunksOf(items)) {
    const results = await insertUnits(
      connection,
      chunk.map((item) => [item]),
    );
    results.forEach((result, index) => result instanceof Error && left.push(chunk[index]!.queueId));
  }
  if (left.length > 0) await connection.query(COUNT_DROPPED, [plainArray(left)]);
}

function* chunksOf(items: readonly EnqueueItem[]): Generator<EnqueueItem[]> {
  let chunk: EnqueueItem[] = [];
  let bytes = 0;
  for (const item of items) {
    if (chunk.length === CHUNK_ROWS || (bytes + item.size > CHUNK_BYTES && chunk.length > 0)) {
      yield chunk;
      [chunk, bytes] = [[], 0];
    }
    chunk.push(item);
    bytes += item.size;
  }
  if (chunk.length > 0) yield chunk;
}

// One call and no transaction, since there is nothing most of the time.
const LOOK: Statement = {
  name: 'events-look',
  text: `select exists (select from event) as "isWaiting", exists (select from webhook) as "isWanted"`,
};

// Locks the events, the oldest first (primary key), passing over those that another run has taken.
const TAKE: Statement = {
  name: 'events-take',
  text: `select seq::text as seq, id, (extract(epoch from at) * 1000000)::float8 as at, type, queue, job_id as "jobId", data
from event
order by event.seq
limit $1::int
for update skip locked`,
};

// The webhooks of each event's tenant, by the unique index on (tenant_id, name); none of a tenant that is being deleted.
const MATCH: Statement = {
  name: 'events-match',
  text: `select e.seq::text as seq, w.queue_id as "queueId", w.include_payload as "includePayload"
from event e
join webhook w on w.tenant_id = e.tenant_id and e.type = any(w.events) and w.disabled_at is null
  and (e.webhook_id is null or w.id = e.webhook_id)
  and (w.queues is null or exists (
    select from unnest(w.queues) as pattern
    where case when right(pattern, 1) = '*' then starts_with(e.queue, left(pattern, -1)) else e.queue = pattern end))
join tenant t on t.id = w.tenant_id and t.closed_at is null
where e.seq = any($1::bigint[])
order by e.seq, w.id`,
};

// Jobs that have just died, by primary key; some may be gone. Large values are not read.
const PAYLOADS: Statement = {
  name: 'events-payloads',
  text: `select job.id, coalesce(job.content_type, 'application/json') as "contentType", octet_length(job.payload) > $2::int is true as "isTooLarge",
  case when job.is_json and octet_length(job.payload) <= $2::int then convert_from(job.payload, 'UTF8') end as json,
  case when not job.is_json and octet_length(job.payload) <= $2::int then job.payload end as bytes
from unnest($1::uuid[]) as wanted(id)
cross join lateral (select * from job where job.id = wanted.id offset 0) job`,
};

const COUNT_DROPPED: Statement = {
  name: 'events-dropped',
  text: `update webhook set dropped = dropped + lost.events
from (select queue_id, count(*) as events from unnest($1::int[]) as given(queue_id) group by queue_id) lost
where webhook.queue_id = lost.queue_id`,
};

// The rows are locked.
const DELETE: Statement = {
  name: 'events-delete',
  text: `delete from event where seq = any($1::bigint[])`,
};
