import type { Connections } from '../db/pool.js';
import type { Batches } from './batches.js';
import type { DatabaseClock } from './clock.js';
import type { Endings } from './endings.js';
import type { QueueDirectory } from './queue-directory.js';
import type { Waiters } from './waiters.js';
import type { Wakeups } from './wakeups.js';

/** The connections by purpose. Settles and heartbeats have their own, so that other load cannot expire leases. */
export interface Database {
  /** Reads, administration, everything that is not hot. */
  readonly ordinary: Connections;
  /** Background tasks: plans of their own, since they look for what the hot statements never look for. */
  readonly tasks: Connections;
  readonly enqueue: Connections;
  readonly claim: Connections;
  readonly settle: Connections;
  /** Commits without waiting for the disk: a lost heartbeat costs a redelivery, never a wrong answer. */
  readonly heartbeat: Connections;
}

/** What operations work with: the database and everything that makes it fast. */
export interface Engine {
  readonly database: Database;
  readonly queues: QueueDirectory;
  readonly batches: Batches;
  readonly waiters: Waiters;
  readonly wakeups: Wakeups;
  readonly endings: Endings;
  readonly clock: DatabaseClock;
  /** What is remembered of API keys. */
  readonly credentials: { forget(keyId: string): void };
}
