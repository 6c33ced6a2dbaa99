import { Connections, INDEX_SETTINGS } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { CHECK_TIMEOUT_MS, createCheck } from './check.js';
import { createDeleteQueues } from './delete-queues.js';
import { expireJobs } from './expire-jobs.js';
import { foldCounts } from './fold-counts.js';
import { forwardDead } from './forward-dead.js';
import { markRates } from './mark-rates.js';
import { pollForWork } from './poll.js';
import { promoteDue } from './promote-due.js';
import { createPrune } from './prune.js';
import { createPurge } from './purge.js';
import { raiseFloors } from './raise-floors.js';
import { returnExpired } from './return-expired.js';
import type { Task } from './runner.js';
import { createSampleDepth } from './sample-depth.js';
import { vacuumTask } from './vacuum.js';
import { watchEndings } from './watch-endings.js';

/** Every background task. */
export function createTasks({
  url,
  metrics,
  log,
}: {
  readonly url: string;
  readonly metrics: Metrics;
  readonly log: Log;
}): {
  readonly list: readonly Task[];
  close(): Promise<void>;
} {
  const shared = {
    url,
    size: 1,
    onCall: (pool: string) => metrics.databaseCalls(pool),
    onLost: (pool: string, error: Error) => log.warn({ pool, err: error }, 'an idle database connection was lost'),
  };
  const vacuum = new Connections({ ...shared, name: 'vacuum', settings: {}, statementTimeout: 0 });
  const check = new Connections({
    ...shared,
    name: 'check',
    settings: INDEX_SETTINGS,
    statementTimeout: CHECK_TIMEOUT_MS,
  });
  return {
    list: [
      pollForWork,
      raiseFloors,
      promoteDue,
      returnExpired,
      expireJobs,
      foldCounts,
      forwardDead,
      markRates,
      createPurge(),
      createDeleteQueues(),
      createPrune(),
      createSampleDepth(metrics),
      watchEndings,
      vacuumTask(vacuum, log),
      createCheck({ connections: check, metrics, log }),
    ],
    close: async () => {
      await Promise.all([vacuum.close(), check.close()]);
    },
  };
}
