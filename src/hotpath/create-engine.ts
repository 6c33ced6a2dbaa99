import { Connections, HOT_SETTINGS } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { Batches } from './batches.js';
import { DatabaseClock } from './clock.js';
import { Endings } from './endings.js';
import type { Database, Engine } from './engine.js';
import { QueueDirectory } from './queue-directory.js';
import { Waiters } from './waiters.js';
import { Wakeups } from './wakeups.js';

export interface EngineParts {
  readonly url: string;
  /** Connections for ordinary calls; the hot path has a few of its own beside them. */
  readonly connections: number;
  readonly maxWaiting: number;
  readonly credentials: (ordinary: Connections) => Engine['credentials'];
  readonly onScheduled: (dueMicros: number) => void;
  readonly metrics: Metrics;
  readonly log: Log;
}

const STATEMENT_MS = 15_000;

/** Puts the hot path together. Nothing connects before the first use. */
export function createEngine(parts: EngineParts): Engine {
  const { metrics, log, maxWaiting } = parts;
  const database = createDatabase(parts);
  const queues = new QueueDirectory(database.ordinary);
  const waiters = new Waiters({
    connections: database.claim,
    repairs: database.tasks,
    queues,
    maxParked: maxWaiting,
    metrics,
    log,
  });
  const changed = async (ids: readonly number[] | 'all'): Promise<void> => {
    waiters.queuesChanged(ids);
    const { unknown } = waiters.waitedFor();
    if (unknown.length > 0) waiters.appeared(await queues.findMany(unknown));
  };
  const wakeups = new Wakeups({
    url: parts.url,
    log,
    metrics,
    onReady: (ids) => waiters.ready(ids),
    onChanged: (ids) => {
      queues.forget(ids);
      // What fails here the poll does again within a second.
      changed(ids).catch((error: unknown) => log.debug({ err: error }, 'looking changed queues up failed'));
    },
    onScheduled: parts.onScheduled,
  });
  return {
    database,
    queues,
    waiters,
    wakeups,
    batches: new Batches({ database, maxWaiting, metrics, log }),
    endings: new Endings(),
    clock: new DatabaseClock(),
    credentials: parts.credentials(database.ordinary),
  };
}

function createDatabase({ url, connections, metrics, log }: EngineParts): Database {
  const open = (name: string, size: number, settings: Readonly<Record<string, string>> = {}): Connections =>
    new Connections({
      url,
      name,
      size,
      settings,
      statementTimeout: STATEMENT_MS,
      onCall: (pool) => metrics.databaseCalls(pool),
      onLost: (pool, error) => log.warn({ pool, err: error }, 'an idle database connection was lost'),
    });
  return {
    ordinary: open('ordinary', connections),
    tasks: open('tasks', 4),
    enqueue: open('enqueue', 2, HOT_SETTINGS),
    claim: open('claim', 2, HOT_SETTINGS),
    settle: open('settle', 3, HOT_SETTINGS),
    heartbeat: open('heartbeat', 1, { ...HOT_SETTINGS, synchronous_commit: 'off' }),
  };
}
