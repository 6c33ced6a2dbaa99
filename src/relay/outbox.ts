import { randomUUID } from 'node:crypto';
import { Connections, INDEX_SETTINGS, isConnectionLost, isTransient, type Statement } from '../db/pool.js';

/** A row of the outbox that this relay has claimed. */
export interface Row {
  /** Digits; which row was written first. */
  readonly id: string;
  readonly key: string;
  readonly queue: string;
  /** JSON text in UTF-8, or whatever the content type says. */
  readonly payload: Buffer | null;
  readonly payloadBytes: Buffer | null;
  /** The text of a JSON object, without `delay`. */
  readonly options: string | null;
  /** The text of a JSON value. */
  readonly delay: string | null;
  readonly contentType: string | null;
  /** Whether the options hold what is not theirs. */
  readonly reserved: boolean;
  /** Bytes that it takes up in a request at most. A row of more than were asked for comes without payload and options. */
  readonly cost: number;
  /** Milliseconds since it was written, by the database's clock. */
  readonly age: number;
  /** Times that it was claimed and not given back, this one included. */
  readonly attempts: number;
}

export interface Sample {
  /** Rows not parked; counted to `MOST_COUNTED`. */
  readonly waiting: number;
  readonly parked: number;
  /** Seconds since the oldest row not parked was written. */
  readonly lag: number;
}

export interface ClaimLimits {
  readonly rows: number;
  readonly bytes: number;
  /** Milliseconds after which others may claim the rows. */
  readonly time: number;
  /** Queues whose rows are left where they are. */
  readonly except: readonly string[];
}

export interface OutboxOptions {
  readonly url: string;
  readonly schema: string;
  readonly onLost: (error: Error) => void;
}

export const MOST_COUNTED = 100_000;
const STATEMENT_MS = 10_000;
const LOCK_TIMEOUT = '2s';
const RETRIED_AT_ONCE = 1_000;
const LONGEST_REASON = 1_000;

/**
 * The outbox in an application's database, as one relay sees it. Each call is one short statement in a transaction of its own.
 * They throw UNAVAILABLE when the database is away, or the database's own error.
 */
export class Outbox {
  /** What rows claimed by this relay bear. */
  private readonly claimant = randomUUID();
  private connections: Connections;
  /** Rows that Stint has and that could not be deleted yet. */
  private readonly sent = new Map<string, Pick<Row, 'id' | 'key'>>();

  constructor(private readonly options: OutboxOptions) {
    this.connections = this.connect();
  }

  /** The version of the installed outbox. */
  async version(): Promise<number> {
    const [row] = await this.query<{ version: number }>(VERSION);
    return row!.version;
  }

  /** Claims rows, those first that were written first. */
  async claim({ rows, bytes, time, except }: ClaimLimits): Promise<Row[]> {
    return this.query<Row>(CLAIM, [this.claimant, time, rows, bytes, except]);
  }

  /** Deletes rows that Stint has. What fails is tried again by the next `forget`. */
  async remove(rows: readonly Row[]): Promise<void> {
    for (const { id, key } of rows) this.sent.set(`${id} ${key}`, { id, key });
    await this.forget();
  }

  /** Deletes what could not be deleted before. */
  async forget(): Promise<void> {
    if (this.sent.size === 0) return;
    const rows = [...this.sent.values()];
    await this.query(REMOVE, [rows.map(({ id }) => id), rows.map(({ key }) => key)]);
    this.sent.clear();
  }

  /** Gives claimed rows back, as if they had not been claimed. */
  async release(rows: readonly Row[]): Promise<void> {
    if (rows.length > 0) await this.query(RELEASE, [this.claimant, rows.map(({ id }) => id)]);
  }

  /** Sets claimed rows aside, each with its reason. */
  async park(rows: readonly { readonly row: Row; readonly reason: string }[]): Promise<void> {
    if (rows.length === 0) return;
    const reasons = rows.map(({ reason }) => reason.replaceAll('\0', '').slice(0, LONGEST_REASON));
    await this.query(PARK, [this.claimant, rows.map(({ row }) => row.id), reasons]);
  }

  /** Puts parked rows back among those that wait: the one of that key, or all. Answers how many. */
  async retry(key: string | undefined): Promise<number> {
    for (let count = 0; ;) {
      const rows = await this.query(RETRY, [key ?? null, RETRIED_AT_ONCE, this.options.schema]);
      count += rows.length;
      if (rows.length < RETRIED_AT_ONCE) return count;
    }
  }

  async sample(): Promise<Sample> {
    const [row] = await this.query<Sample>(SAMPLE, [MOST_COUNTED]);
    return row!;
  }

  async close(): Promise<void> {
    await this.connections.close();
  }

  private async query<R>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
    const { connections } = this;
    try {
      return await connections.query<R>(statement, values);
    } catch (error) {
      // The owner may have changed the table: what was prepared before does not fit any more, on any of these connections.
      if (!isConnectionLost(error) && !isTransient(error) && connections === this.connections) {
        this.connections = this.connect();
        void connections.close();
      }
      throw error;
    }
  }

  private connect(): Connections {
    const { url, schema, onLost } = this.options;
    return new Connections({
      url,
      name: 'relay',
      size: 2,
      settings: {
        ...INDEX_SETTINGS,
        // A plan made while the outbox is empty, as it mostly is, takes half a second where 500,000 rows wait; planning takes 1 ms.
        plan_cache_mode: 'force_custom_plan',
        search_path: schema,
        lock_timeout: LOCK_TIMEOUT,
        default_transaction_isolation: 'read committed',
      },
      statementTimeout: STATEMENT_MS,
      onCall: () => undefined,
      onLost: (_pool, error) => onLost(error),
    });
  }
}

const VERSION: Statement = {
  name: 'outbox-version',
  text: `select outbox_version() as version`,
};

// Locks the rows that it claims, and up to the limit more, for the time of the statement; those that others hold are left out, so
// any number of relays claim side by side. Walks message_waiting from its beginning: a row that is committed late stands before
// others and is found at the next look, since nothing remembers how far one has come. The running sum keeps a batch within
// what one request may hold; the first row is claimed whatever its size, so that it can be parked. Types are cast so that a
// changed column is still read.
const CLAIM: Statement = {
  name: 'outbox-claim',
  text: `with candidate as materialized (
  select id, 300 + 6 * octet_length(queue)::bigint + octet_length(options::text)
    + (coalesce(octet_length(payload::text), 0)::bigint + coalesce(octet_length(payload_bytes), 0)) * 4 / 3 as cost
  from message
  where parked_at is null and (claimed_until is null or claimed_until <= clock_timestamp()) and queue <> all($5::text[])
  order by id
  limit $3::int
  for update skip locked),
fitting as materialized (
  select id, cost
  from (select id, cost, row_number() over running as nth, sum(cost) over running as total
    from candidate
    window running as (order by id)) summed
  where nth = 1 or total <= $4::bigint),
claimed as (
  update message m
  set claimed_by = $1::uuid, claimed_until = clock_timestamp() + $2::int * interval '1 millisecond', attempts = attempts + 1
  from fitting
  where m.id = fitting.id
  returning m.*, fitting.cost)
select id::text, key::text, left(queue, 1000) as queue, cost::float8, attempts,
  case when cost <= $4::bigint then convert_to(payload::text, 'UTF8') end as payload,
  case when cost <= $4::bigint then payload_bytes end as "payloadBytes",
  case when cost <= $4::bigint then (options - 'delay')::text end as options,
  (options -> 'delay')::text as delay,
  options ->> 'contentType' as "contentType",
  options ?| '{queue,payload,payloadBase64,idempotencyKey}' as reserved,
  extract(epoch from clock_timestamp() - created_at)::float8 * 1000 as age
from claimed
order by claimed.id`,
};

// By the primary key. The key has to agree: ids are given out again after a backup was restored.
const REMOVE: Statement = {
  name: 'outbox-remove',
  text: `delete from message m
using unnest($1::bigint[], $2::uuid[]) as sent(id, key)
where m.id = sent.id and m.key = sent.key`,
};

// Only what is still this relay's: a claim may have run out.
const RELEASE: Statement = {
  name: 'outbox-release',
  text: `update message
set claimed_by = null, claimed_until = null, attempts = attempts - 1
where id = any($2::bigint[]) and claimed_by = $1::uuid`,
};

const PARK: Statement = {
  name: 'outbox-park',
  text: `update message m
set parked_at = clock_timestamp(), parked_reason = given.reason, claimed_by = null, claimed_until = null
from unnest($2::bigint[], $3::text[]) as given(id, reason)
where m.id = given.id and m.claimed_by = $1::uuid and m.parked_at is null`,
};

// Walks message_parked. The relays are woken when it commits.
const RETRY: Statement = {
  name: 'outbox-retry',
  text: `with picked as materialized (
  select id from message
  where parked_at is not null and ($1::uuid is null or key = $1::uuid)
  order by id
  limit $2::int
  for update),
woken as materialized (select pg_notify($3::text, ''))
update message m
set parked_at = null, parked_reason = null, attempts = 0
from picked, woken
where m.id = picked.id
returning m.id`,
};

// Reads two partial indexes, each up to a bound.
const SAMPLE: Statement = {
  name: 'outbox-sample',
  text: `select
  (select count(*)::int from (select from message where parked_at is null limit $1::int) w) as waiting,
  (select count(*)::int from (select from message where parked_at is not null limit $1::int) p) as parked,
  coalesce((select greatest(0, extract(epoch from clock_timestamp() - created_at))::float8
    from message where parked_at is null order by id limit 1), 0) as lag`,
};
