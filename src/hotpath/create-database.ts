import { Connections, HOT_SETTINGS, INDEX_SETTINGS } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Database } from './database.js';

export interface DatabaseParts {
  readonly url: string;
  /** Connections for ordinary calls; the hot path has a few of its own beside them. */
  readonly connections: number;
  /** Of each kind of hot statement; unless given, few: what comes meanwhile joins the next. */
  readonly hotConnections?: number | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
}

const STATEMENT_MS = 15_000;

/** Opens the pools. Nothing connects before the first use. */
export function createDatabase({ url, connections, hotConnections, metrics, log }: DatabaseParts): Database {
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
    ordinary: open('ordinary', connections, INDEX_SETTINGS),
    tasks: open('tasks', 4, INDEX_SETTINGS),
    enqueue: open('enqueue', hotConnections ?? 3, HOT_SETTINGS),
    claim: open('claim', hotConnections ?? 2, HOT_SETTINGS),
    settle: open('settle', hotConnections ?? 3, HOT_SETTINGS),
    heartbeat: open('heartbeat', hotConnections ?? 1, { ...HOT_SETTINGS, synchronous_commit: 'off' }),
  };
}
