import { collectDefaultMetrics, Registry } from 'prom-client';
import { batchInstruments } from './batch-metrics.js';
import { callInstruments } from './call-metrics.js';
import { databaseInstruments } from './database-metrics.js';
import { jobInstruments } from './job-metrics.js';
import { queueInstruments } from './queue-metrics.js';
import { storageInstruments } from './storage-metrics.js';
import { taskInstruments } from './task-metrics.js';

/*
 * Every instrument of the service is in one of the files named here; docs/operations.md says what each means. Names begin `stint_`,
 * units are base units, counters end in `_total`. No label holds an id, a key, a worker's name or an error's text. Names of queues
 * and tenants are labels of the sampled instruments alone, of a bounded number of queues.
 */

export type Metrics = ReturnType<typeof createMetrics>;

/** The instruments of one service, in a registry of their own. */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'stint_' });
  const jobs = jobInstruments(registers);
  const queues = queueInstruments(registers);
  const storage = storageInstruments(registers);
  const database = databaseInstruments(registers);
  return {
    ...callInstruments(registers),
    ...batchInstruments(registers),
    ...jobs,
    ...queues,
    ...storage,
    ...database,
    notificationsHealthy: (ok: boolean): void => {
      database.notificationsHealthy(ok);
      if (ok) return;
      // Of those that listen one shows what all see (tasks/sample-depth.ts).
      queues.queuesUnknown();
      storage.storageUnknown();
    },
    ...taskInstruments(registers, jobs.jobs),
    /** The text of a scrape and its media type. */
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}
