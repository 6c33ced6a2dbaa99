import type { ServiceError } from '../errors.js';

/** What a lease asks for. */
export interface LeaseRequest {
  readonly tenantId: string;
  readonly queues: readonly { readonly name: string; readonly weight: number }[];
  readonly maxJobs: number;
  /** Milliseconds; 0 does not park. */
  readonly wait: number;
  readonly visibilityTimeout: number | undefined;
  readonly worker: string | undefined;
  readonly signal: AbortSignal;
  /** Told, before the answer, for how many seconds the lease had nothing to do but wait. */
  readonly idled: (seconds: number) => void;
}

/** A parked lease. */
export interface Waiter {
  readonly request: LeaseRequest;
  /** Those of its queues that exist, by id. */
  readonly queues: Map<number, { readonly name: string; readonly weight: number }>;
  /** Those that do not, until they do: weight by name. */
  readonly unknown: Map<string, number>;
  mustLook: boolean;
  busy: boolean;
  /** Its time is up: the next round that gives it nothing ends it. */
  late: boolean;
  /** Since when it has had nothing to do but wait, and for how long before that; milliseconds. */
  idleSince: number | undefined;
  idle: number;
  readonly answer: (jobs: unknown[] | ServiceError) => void;
}
