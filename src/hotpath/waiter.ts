import type { Departure } from '../core/departure.js';
import type { ServiceError } from '../errors.js';
import type { KnownQueue } from './queue-directory.js';

/** What a lease asks for. */
export interface LeaseRequest {
  readonly tenantId: string;
  readonly queues: readonly { readonly name: string; readonly weight: number }[];
  readonly maxJobs: number;
  /** Milliseconds; 0 does not park. */
  readonly wait: number;
  readonly visibilityTimeout: number | undefined;
  readonly worker: string | undefined;
  readonly departure: Departure;
  /** Called when the lease begins to wait: it may be ended from then on, until what this answers is called. May throw a ServiceError. */
  readonly park: (end: (error: ServiceError) => void) => () => void;
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
  /** When its time is up: a round that gives it nothing then ends it. Milliseconds of this process. */
  until: number;
  /** Set while it has nothing to do but wait. */
  timer: NodeJS.Timeout | undefined;
  /** Why it may wait no longer, while a claim is under way for it. */
  ended: ServiceError | undefined;
  /** Set since it began to wait for the first time: to be called when it ends. */
  unpark: (() => void) | undefined;
  /** Since when it has had nothing to do but wait, and for how long before that; milliseconds. */
  idleSince: number | undefined;
  idle: number;
  readonly answer: (jobs: unknown[] | ServiceError) => void;
}

/** A lease that is still to be entered for its queues. */
export function createWaiter(request: LeaseRequest, answer: Waiter['answer']): Waiter {
  return {
    request,
    queues: new Map(),
    unknown: new Map(),
    mustLook: true,
    busy: false,
    until: performance.now() + request.wait,
    timer: undefined,
    ended: undefined,
    unpark: undefined,
    idleSince: undefined,
    idle: 0,
    answer,
  };
}

/** It has something to do again. */
export function stopIdling(waiter: Waiter): void {
  if (waiter.idleSince !== undefined) waiter.idle += performance.now() - waiter.idleSince;
  waiter.idleSince = undefined;
}

/** Enters one of its queues, among those that exist or those that do not. */
export function place(waiter: Waiter, item: { name: string; weight: number; queue: KnownQueue | undefined }): void {
  if (item.queue === undefined) waiter.unknown.set(item.name, item.weight);
  else waiter.queues.set(item.queue.id, { name: item.name, weight: item.weight });
}
