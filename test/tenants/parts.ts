import { v7 } from 'uuid';
import { Departure } from '../../src/core/departure.js';
import type { AdminContext, Context, Tenant } from '../../src/core/operation.js';
import { Connections, HOT_SETTINGS } from '../../src/db/pool.js';
import { DatabaseClock } from '../../src/hotpath/clock.js';
import { Endings } from '../../src/hotpath/endings.js';
import type { Engine } from '../../src/hotpath/engine.js';
import { QueueDirectory } from '../../src/hotpath/queue-directory.js';
import { KnownKeys } from '../../src/tenants/known-keys.js';
import { contextOf } from '../helpers/context.js';
import { createDatabase, query } from '../helpers/postgres.js';

/** A database, and as much of an engine as operations need that neither enqueue nor lease. */
export async function openParts() {
  const database = await createDatabase();
  let calls = 0;
  const connections = new Connections({
    url: database.url,
    name: 'test',
    size: 4,
    settings: HOT_SETTINGS,
    statementTimeout: 10_000,
    onCall: () => calls++,
    onLost: () => undefined,
  });
  const woken: { ready: number[]; scheduled: number[] } = { ready: [], scheduled: [] };
  const keys = new KnownKeys(connections);
  const engine = {
    database: { ordinary: connections, tasks: connections },
    queues: new QueueDirectory(connections),
    endings: new Endings(),
    clock: new DatabaseClock(),
    credentials: { changed: () => keys.forget() },
    wakeups: {
      ready: (ids: Iterable<number>) => woken.ready.push(...ids),
      scheduled: (at: number) => woken.scheduled.push(at),
    },
  } as unknown as Engine;
  return {
    connections,
    engine,
    keys,
    woken,
    calls: () => calls,
    sql: <R extends Record<string, unknown> = any>(text: string, values: unknown[] = []) =>
      query<R>(database.url, text, values),
    as: (tenant: Tenant, departure = new Departure()): Context<Engine> => contextOf(engine, tenant, { departure }),
    admin: contextOf(engine, undefined) as AdminContext<Engine>,
    close: async () => {
      await connections.close();
      await database.drop();
    },
  };
}

export type Parts = Awaited<ReturnType<typeof openParts>>;

/** A tenant made by SQL. */
export async function addTenant({ sql }: Parts, name = `t-${v7()}`): Promise<Tenant> {
  const id = v7();
  await sql('insert into stint.tenant (id, name) values ($1, $2)', [id, name]);
  return { id, name, autoCreateQueues: true, limits: {} };
}

/** Polls until it holds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 5_000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error('it did not come to hold within 5 s');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
