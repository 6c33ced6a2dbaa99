import type { Batches } from './batches.js';
import type { DatabaseClock } from './clock.js';
import type { Database } from './database.js';
import type { Endings } from './endings.js';
import type { Floors } from './floors.js';
import type { QueueDirectory } from './queue-directory.js';
import type { Waiters } from './waiters.js';
import type { Wakeups } from './wakeups.js';

/** What operations work with: the database and everything that makes it fast. */
export interface Engine {
  readonly database: Database;
  readonly queues: QueueDirectory;
  readonly batches: Batches;
  readonly waiters: Waiters;
  readonly wakeups: Wakeups;
  readonly floors: Floors;
  readonly endings: Endings;
  readonly clock: DatabaseClock;
  /** What is remembered of API keys. */
  readonly credentials: { forget(keyId: string): void };
}
