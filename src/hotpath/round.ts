import type { Start } from './lanes.js';
import type { Waiter } from './waiter.js';

/**
 * One claim: what is asked for, for whom. Each queue has a stretch of slots, one a row it may give; slot `offset + n` (from 1)
 * says who gets the queue's n-th row and how much that waiter prefers this queue. A waiter may have slots in several queues;
 * the statement gives it no more than it wants, in the order of its preference.
 */
export interface Round {
  readonly waiters: readonly Waiter[];
  readonly queues: readonly RoundQueue[];
  /** By slot: index of the waiter (from 0), and its preference of the queue (0 first). */
  readonly slotWaiter: readonly number[];
  readonly slotPreference: readonly number[];
  readonly leaseIds: readonly string[];
  /** Waiters that could not be given slots in all of their queues: they look again if they got nothing. */
  readonly partial: ReadonlySet<number>;
  readonly version: number;
  /** Those of the queues that have a bound on their leases, sorted. */
  readonly limited: readonly number[];
}

export interface RoundQueue {
  readonly queueId: number;
  readonly offset: number;
  readonly limit: number;
  readonly waiters: readonly number[];
  readonly start: Start;
}
