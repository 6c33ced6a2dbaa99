import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { Batches } from './batches.js';
import type { Chores } from './chores.js';
import type { DatabaseClock } from './clock.js';
import type { Database } from './database.js';
import { Depths } from './depths.js';
import { Endings } from './endings.js';
import type { Engine } from './engine.js';
import { Floors } from './floors.js';
import { Lanes } from './lanes.js';
import type { Poster } from './outgoing.js';
import { QueueDirectory } from './queue-directory.js';
import { Waiters } from './waiters.js';
import { Wakeups } from './wakeups.js';
import { Watches } from './watches.js';

export interface EngineParts {
  readonly url: string;
  readonly database: Database;
  readonly clock: DatabaseClock;
  readonly chores: Chores;
  readonly poster: Poster;
  /** Whether nothing but its own calls tells the instance of work (STINT_BACKGROUND=off). */
  readonly isDeaf?: boolean;
  /** Keys or tenants have changed, here or on another instance. */
  readonly onCredentials: () => void;
  /** The versions that know the migrations up to this number are the oldest that the database serves. */
  readonly onFloor: (floor: number) => void;
  readonly maxWaiting: number;
  /** How many statements of a kind run at once, when each serves one call alone: for a benchmark's comparison. */
  readonly oneByOne?: number | undefined;
  readonly onScheduled: (dueMicros: number) => void;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** Puts the hot path together. */
export function createEngine(parts: EngineParts): Engine {
  const { database, clock, metrics, log, maxWaiting, oneByOne } = parts;
  const queues = new QueueDirectory(database.ordinary);
  const lanes = new Lanes();
  const watches = new Watches();
  const waiters = new Waiters({
    connections: database.claim,
    repairs: database.tasks,
    queues,
    lanes,
    maxParked: maxWaiting,
    alwaysLooks: parts.isDeaf ?? false,
    claims: oneByOne === undefined ? undefined : { atOnce: oneByOne, leases: 1 },
    metrics,
    log,
  });
  const lookUpUnknown = oneAtATime(async () => {
    const { unknown } = waiters.waitedFor();
    if (unknown.length > 0) waiters.appeared(await queues.findMany(unknown));
  });
  const wakeups = new Wakeups({
    url: parts.url,
    log,
    metrics,
    onConnected: () => lanes.forget(),
    onReady: (ids) => {
      waiters.ready(ids);
      watches.ready(ids);
    },
    onChanged: (ids) => {
      queues.forget(ids);
      waiters.queuesChanged(ids);
      watches.changed(ids);
      // What fails here the poll does again within a second.
      lookUpUnknown().catch((error: unknown) => log.debug({ err: error }, 'looking changed queues up failed'));
    },
    onCredentials: parts.onCredentials,
    onFloor: parts.onFloor,
    onScheduled: parts.onScheduled,
  });
  return {
    database,
    queues,
    waiters,
    wakeups,
    floors: new Floors({ lanes, onBreach: (queueId) => waiters.ready([queueId]), log }),
    batches: new Batches({ database, maxWaiting, oneByOne, metrics, log }),
    endings: new Endings(),
    depths: new Depths(database.ordinary),
    watches,
    clock,
    chores: parts.chores,
    poster: parts.poster,
    credentials: { changed: () => wakeups.credentialsChanged() },
  };
}

/** While it runs, any number of further calls make one more run. */
function oneAtATime(run: () => Promise<void>): () => Promise<void> {
  let running = false;
  let wanted = false;
  return async () => {
    wanted = true;
    if (running) return;
    running = true;
    try {
      while (wanted) {
        wanted = false;
        await run();
      }
    } finally {
      running = false;
    }
  };
}
