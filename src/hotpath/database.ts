import type { Connections } from '../db/pool.js';

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
