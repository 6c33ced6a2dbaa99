import { createPoster } from '../../src/events/poster.js';
import { DatabaseClock } from '../../src/hotpath/clock.js';
import { createDatabase } from '../../src/hotpath/create-database.js';
import { createEngine } from '../../src/hotpath/create-engine.js';
import type { Engine } from '../../src/hotpath/engine.js';
import { createLog } from '../../src/observability/log.js';
import { createMetrics } from '../../src/observability/metrics.js';
import { promoteDue } from '../../src/tasks/promote-due.js';
import { returnExpired } from '../../src/tasks/return-expired.js';
import { type Client, type TestService, until } from '../helpers/service.js';

/** What the commands of the model work on: one queue of the running service. */
export interface Real {
  readonly client: Client;
  readonly queue: string;
  readonly service: Pick<TestService, 'sql'>;
  readonly background: Background;
}

/** The two chores that the model must not race with, to be run at will beside those of the service. */
export interface Background {
  /** Until the service has noticed that the leases of these jobs have run out. */
  noticeExpiry(jobIds: readonly string[]): Promise<void>;
  /** Until these jobs, which are due, are ready. */
  promote(jobIds: readonly string[]): Promise<void>;
  readonly close: () => Promise<void>;
}

/** The hot path on a service's database, as a further instance that serves nobody and does nothing by itself. */
export function openEngine(service: Pick<TestService, 'database'>): {
  readonly engine: Engine;
  readonly close: () => Promise<void>;
} {
  const shared = { url: service.database.url, metrics: createMetrics(), log: createLog('error') };
  const engine = createEngine({
    ...shared,
    database: createDatabase({ ...shared, connections: 1 }),
    clock: new DatabaseClock(),
    maxWaiting: 1_000,
    onFloor: () => undefined,
    onCredentials: () => undefined,
    poster: createPoster({ allowedNetworks: [] }),
    chores: { round: () => Promise.resolve([]) },
    onScheduled: () => undefined,
  });
  const close = async (): Promise<void> => {
    await Promise.all(
      Object.values(engine.database).map((connections: { close(): Promise<void> }) => connections.close()),
    );
  };
  return { engine, close };
}

export function createBackground(service: TestService): Background {
  const { engine, close } = openEngine(service);
  const none = async (table: string, jobIds: readonly string[]): Promise<boolean> => {
    const [row] = await service.sql(`select count(*)::int as n from stint.${table} where job_id = any($1::uuid[])`, [
      jobIds,
    ]);
    return row.n === 0;
  };
  return {
    noticeExpiry: async (jobIds) => {
      await until('expired leases are noticed', async () => {
        await returnExpired.run(engine);
        return none('lease', jobIds);
      });
    },
    promote: async (jobIds) => {
      await until('due jobs are ready', async () => {
        await promoteDue.run(engine);
        return none('scheduled', jobIds);
      });
    },
    close,
  };
}
