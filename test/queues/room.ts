import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { v7 } from 'uuid';
import type { Operation, Tenant } from '../../src/core/operation.js';
import { compileValidator } from '../../src/core/validate.js';
import { Connections } from '../../src/db/pool.js';
import { Endings } from '../../src/hotpath/endings.js';
import type { Engine } from '../../src/hotpath/engine.js';
import { QueueDirectory } from '../../src/hotpath/queue-directory.js';
import { contextOf } from '../helpers/context.js';
import { createDatabase, query } from '../helpers/postgres.js';

/** A database of its own with the parts of an engine that queues and tasks touch; wake-ups are written down. */
export async function openRoom() {
  const database = await createDatabase();
  const connections = new Connections({
    url: database.url,
    name: 'test',
    size: 6,
    settings: {},
    statementTimeout: 30_000,
    onCall: () => undefined,
    onLost: () => undefined,
  });
  const woken = { ready: [] as number[], changed: [] as number[], scheduled: [] as number[], ended: [] as string[] };
  const endings = new Endings();
  const engine = {
    database: { ordinary: connections, tasks: connections },
    queues: new QueueDirectory(connections),
    wakeups: {
      ready: (ids: Iterable<number>) => void woken.ready.push(...ids),
      changed: (id: number) => void woken.changed.push(id),
      scheduled: (at: number) => void woken.scheduled.push(at),
    },
    endings: Object.assign(endings, { ended: (ids: Iterable<string>) => void woken.ended.push(...ids) }),
  } as unknown as Engine;
  const tenant: Tenant = {
    id: randomUUID(),
    name: `tenant-${database.url.slice(-8)}`,
    autoCreateQueues: true,
    limits: {},
  };
  const sql = <R extends object = any>(text: string, values: unknown[] = []) =>
    query<R>(inSchema(database.url), text, values);
  await sql('insert into tenant (id, name) values ($1, $2)', [tenant.id, tenant.name]);
  return {
    engine,
    tenant,
    woken,
    sql,
    url: inSchema(database.url),
    /** Runs an operation as the door would: validated, for this tenant. */
    call: async (operation: Operation<Engine>, input: object, as = tenant): Promise<any> => {
      compileValidator(operation.input)(input);
      const context = contextOf(engine, as);
      return operation.run(context, input as never);
    },
    queueId: async (name: string): Promise<number> =>
      (await sql<{ id: number }>('select id from queue where name = $1 and closed_at is null', [name]))[0]!.id,
    close: async () => {
      await connections.close();
      await database.drop();
    },
  };
}

export type Room = Awaited<ReturnType<typeof openRoom>>;

function inSchema(url: string): string {
  const schema = new URL(url);
  schema.searchParams.set('options', '-c search_path=stint');
  return schema.href;
}

export interface Placing {
  readonly queueId: number;
  readonly count?: number;
  readonly key?: string;
  readonly kind?: string;
  /** Microseconds since 1970. */
  readonly expiresAt?: string;
  readonly ended?: string;
  readonly rank?: number;
  readonly minutesAgo?: number;
}

type Place = 'ready' | 'scheduled' | 'lease' | 'dead' | 'finished';

/** Puts jobs, with bodies and counts, where they are to stand; answers their ids. */
export async function place(room: Pick<Room, 'sql'>, where: Place, placing: Placing): Promise<string[]> {
  const { queueId, count = 1, key, kind, expiresAt, ended = 'none', rank = 0, minutesAgo = 0 } = placing;
  const ids = Array.from({ length: count }, () => v7());
  await room.sql(PLACE[where], [ids, queueId, key, kind, expiresAt, ended, rank, minutesAgo]);
  return ids;
}

const BODY = `with given as (
  select unnest($1::uuid[]) as id, $2::int as queue_id, $3::text as key, $4::text as kind, $5::timestamptz as expires_at,
    $6::stint.lease_end as ended, $7::smallint as rank, clock_timestamp() - $8::int * interval '1 minute' as at),
body as (insert into job (id, queue_id, kind, payload, is_json, priority, idempotency_key, expires_at, run_at, created_at)
  select id, queue_id, kind, '1', true, -rank, key, expires_at, at, at from given),
attempts as (insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome)
  select id, 1, 1, 7, at, at, 'nacked' from given),
keys as (insert into idempotency (queue_id, key, job_id, fingerprint, expires_at)
  select queue_id, key, id, '', at + interval '1 day' from given where key is not null),
expiry as (insert into job_expiry (expires_at, job_id) select expires_at, id from given where expires_at is not null)`;

const PLACE: Readonly<Record<Place, string>> = {
  ready: `${BODY}, placed as (insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, ended)
    select queue_id, rank, id, at, expires_at, 7, 1, 1, 0, 1, ended from given)
    insert into queue_count (queue_id, ready, enqueued) select $2::int, count(*), count(*) from given`,
  scheduled: `${BODY}, placed as (insert into scheduled (due_at, queue_id, rank, job_id, expires_at, lease_id, epoch, attempt, releases, size, ended)
    select at + interval '1 day', queue_id, rank, id, expires_at, 7, 1, 1, 0, 1, ended from given)
    insert into queue_count (queue_id, scheduled, enqueued) select $2::int, count(*), count(*) from given`,
  lease: `${BODY}, placed as (insert into lease (job_id, lease_id, leased_at, lease_expires_at, expires_at, queue_id, epoch, attempt, releases, size, duration, rank, worker)
    select id, 8, at, at + interval '1 hour', expires_at, queue_id, 2, 2, 0, 1, 3600000, rank, kind from given)
    insert into queue_count (queue_id, leased, enqueued) select $2::int, count(*), count(*) from given`,
  dead: `${BODY}, placed as (insert into dead (job_id, ended_at, expires_at, lease_id, queue_id, epoch, attempt, releases, size, rank, reason, ended)
    select id, at, expires_at, 7, queue_id, 1, 1, 2, 1, rank, 'attempts_spent', 'nacked' from given)
    insert into queue_count (queue_id, dead, enqueued, failed) select $2::int, count(*), count(*), count(*) from given`,
  finished: `${BODY}, placed as (insert into finished (job_id, ended_at, lease_id, queue_id, epoch, attempt, releases, rank, state, ended)
    select id, at, 7, queue_id, 1, 1, 0, rank, 'completed', 'acked' from given)
    insert into queue_count (queue_id, enqueued, completed) select $2::int, count(*), count(*) from given`,
};

/** Polls until `check` answers true; fails after ten seconds. */
export async function until(check: () => Promise<boolean> | boolean): Promise<void> {
  for (const started = Date.now(); !(await check()); await pause(10)) {
    if (Date.now() - started > 10_000) throw new Error('what was waited for did not come about within 10 s');
  }
}
