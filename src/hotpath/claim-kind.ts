import type { Connections } from '../db/pool.js';
import type { Taken } from './lanes.js';
import type { Round } from './round.js';

/** What the verb brings: the statements around a claim. */
export interface ClaimKind<Job> {
  /** Leases what the round asks for. Throws when nothing was leased or that is not known. */
  readonly claim: (connections: Connections, round: Round, started: (processId: number) => void) => Promise<Claim<Job>>;
  /** Gives back, spending no attempt, whatever is leased under these lease ids. */
  readonly giveBack: (connections: Connections, leaseIds: readonly string[]) => Promise<void>;
}

export interface Claim<Job> {
  readonly jobs: readonly ClaimedJob<Job>[];
  /** What was taken from each queue that gave anything. */
  readonly taken: ReadonlyMap<number, Taken>;
  /** Of the jobs that had not been leased before: for how long each could have been, in seconds. */
  readonly waits: readonly number[];
  /** How many rows it looked at in each queue that has any; those beyond what was taken were left, since their waiter had enough. */
  readonly found: ReadonlyMap<number, number>;
}

export interface ClaimedJob<Job> {
  /** Index into the round's waiters. */
  readonly waiter: number;
  readonly queueId: number;
  readonly job: Job;
}
