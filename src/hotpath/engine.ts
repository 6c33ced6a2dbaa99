import type { Batches } from './batches.js';
import type { Chores } from './chores.js';
import type { DatabaseClock } from './clock.js';
import type { Database } from './database.js';
import type { Depths } from './depths.js';
import type { Endings } from './endings.js';
import type { Floors } from './floors.js';
import type { Poster } from './outgoing.js';
import type { QueueDirectory } from './queue-directory.js';
import type { Waiters } from './waiters.js';
import type { Wakeups } from './wakeups.js';
import type { Watches } from './watches.js';

/** What operations work with: the database and everything that makes it fast. */
export interface Engine {
  readonly database: Database;
  readonly queues: QueueDirectory;
  readonly batches: Batches;
  readonly waiters: Waiters;
  readonly wakeups: Wakeups;
  readonly floors: Floors;
  readonly endings: Endings;
  readonly depths: Depths;
  readonly watches: Watches;
  readonly clock: DatabaseClock;
  readonly chores: Chores;
  readonly poster: Poster;
  /** To be told when keys or tenants have changed: all instances look at them anew. */
  readonly credentials: { changed(): void };
}
