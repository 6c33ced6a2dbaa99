import { Connections, INDEX_SETTINGS } from '../db/pool.js';
import { Interest } from '../events/interest.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Callers } from '../tenants/callers.js';
import { CHECK_TIMEOUT_MS, createCheck } from './check.js';
import { createDeleteQueues } from './delete-queues.js';
import { expireJobs } from './expire-jobs.js';
import { foldCounts } from './fold-counts.js';
import { forwardDead } from './forward-dead.js';
import { markRates } from './mark-rates.js';
import { pollForWork } from './poll.js';
import { fireSchedules } from './fire-schedules.js';
import { promoteDue } from './promote-due.js';
import { createPrune } from './prune.js';
import { createPruneAudit } from './prune-audit.js';
import { createPurge } from './purge.js';
import { raiseFloors } from './raise-floors.js';
import { returnExpired } from './return-expired.js';
import type { Task } from './runner.js';
import { createDeliverWebhooks } from './deliver-webhooks.js';
import { createFanOutEvents } from './fan-out-events.js';
import { watchBacklogsTask } from './watch-backlogs.js';
import { createDeleteTenants } from './delete-tenants.js';
import { createMarkKeysUsed } from './mark-keys-used.js';
import { createShareLimits } from './share-limits.js';
import { createWatchCallers } from './watch-callers.js';
import { createSampleDepth } from './sample-depth.js';
import { vacuumTask } from './vacuum.js';
import { watchEndings } from './watch-endings.js';

/** Every background task. */
export function createTasks({
  url,
  callers,
  auditRetentionDays,
  background,
  metrics,
  log,
}: {
  readonly url: string;
  readonly callers: Callers;
  readonly auditRetentionDays: number;
  /** Whether the service works by itself, and not by ticks alone. */
  readonly background: boolean;
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
  const interest = new Interest();
  return {
    list: [
      pollForWork,
      raiseFloors,
      promoteDue,
      fireSchedules,
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
      createWatchCallers(callers.watch),
      createShareLimits(callers.allowances),
      createMarkKeysUsed(callers.keys),
      createDeleteTenants(),
      // In the order in which a tick brings an event to its endpoint.
      watchBacklogsTask,
      createFanOutEvents(interest),
      createDeliverWebhooks(interest, !background),
      createPruneAudit(auditRetentionDays),
      vacuumTask(vacuum, log),
      createCheck({ connections: check, metrics, log }),
    ],
    close: async () => {
      await Promise.all([vacuum.close(), check.close()]);
    },
  };
}
