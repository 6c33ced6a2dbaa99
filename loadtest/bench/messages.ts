import type { Taken } from './tally.js';

/** Where calls go: clients are spread over the bases. */
export interface Target {
  readonly bases: readonly string[];
  readonly key: string;
}

/** Enqueues for as long as it lasts; each client has one call under way. */
export interface EnqueueLoad {
  readonly kind: 'enqueue';
  readonly target: Target;
  readonly clients: number;
  readonly batch: number;
  readonly queue: string;
  readonly path?: string;
}

/** Leases until the queue is empty, and keeps the tokens for an `ack` load of the same process. */
export interface LeaseLoad {
  readonly kind: 'lease';
  readonly target: Target;
  readonly clients: number;
  readonly batch: number;
  readonly queue: string;
}

/** Acks what `lease` has kept, until nothing is left. */
export interface AckLoad {
  readonly kind: 'ack';
  readonly target: Target;
  readonly clients: number;
  readonly batch: number;
}

/** Producers and workers at once; a worker's lease carries the acks of its jobs before. */
export interface CycleLoad {
  readonly kind: 'cycle';
  readonly target: Target;
  readonly producers: number;
  readonly workers: number;
  readonly batch: number;
  readonly queues: readonly string[];
  /** Whether each batch goes over the queues in turn, job by job; to one queue unless given. */
  readonly spread?: boolean;
  /** Producers pause while this many jobs are enqueued and not acked, workers while as many more are acked than enqueued. */
  readonly depth: number;
  /** Jobs a second that are offered; as many as possible unless given. */
  readonly rate?: number;
}

/** Each client enqueues one job, leases one, acks it, and so on. */
export interface SingleCycleLoad {
  readonly kind: 'single-cycle';
  readonly target: Target;
  readonly clients: number;
  readonly queue: string;
  /** Whether each lease is extended once. */
  readonly heartbeat?: boolean;
  /** Cycles a second in all; as many as possible unless given. */
  readonly rate?: number;
}

/** Paced single enqueues to parked workers; measures how long a job takes into a worker's hands. */
export interface PickUpLoad {
  readonly kind: 'pick-up';
  readonly target: Target;
  readonly rate: number;
  readonly workers: number;
  readonly queue: string;
}

/** Long polls on queues in which nothing comes. */
export interface ParkLoad {
  readonly kind: 'park';
  readonly target: Target;
  readonly clients: number;
  readonly queues: readonly string[];
  readonly waitSeconds: number;
}

/** Long polls and large enqueues of a tenant at its limits: what is refused is expected, and tried again. */
export interface FloodLoad {
  readonly kind: 'flood';
  readonly target: Target;
  /** Long polls on a queue in which nothing comes. */
  readonly polls: number;
  readonly waitSeconds: number;
  /** Connections that enqueue. */
  readonly producers: number;
  /** Enqueues a second that they offer in all, whatever becomes of them. */
  readonly rate: number;
  readonly payloadBytes: number;
}

/** Reads, one after the other, a pause between two; a list that goes on is followed from page to page. */
export interface ReadLoad {
  readonly kind: 'read';
  readonly target: Target;
  readonly clients: number;
  readonly paths: readonly string[];
  readonly pauseMs: number;
}

/** Jobs with keys of their own that die at their first failure, and an administrative act for each batch of them. */
export interface MortalLoad {
  readonly kind: 'mortal';
  readonly target: Target;
  readonly queue: string;
  readonly batch: number;
  /** Jobs a second. */
  readonly rate: number;
}

/** The service's own statements, enqueue, claim and ack in turn, on one connection, without HTTP and without batching. */
export interface BareLoad {
  readonly kind: 'bare';
  readonly url: string;
  readonly queueId: number;
  readonly tenantId: string;
  readonly batch: number;
}

/** Worker streams over gRPC, which ack what they are sent; the target's base is `host:port`. */
export interface StreamLoad {
  readonly kind: 'stream';
  readonly target: Target;
  readonly streams: number;
  readonly credits: number;
  readonly queue: string;
}

/** Calls over gRPC: each connection leases one job, acks it, and so on; the target's base is `host:port`. */
export interface UnaryLoad {
  readonly kind: 'unary';
  readonly target: Target;
  readonly connections: number;
  readonly queue: string;
}

export type Load =
  | EnqueueLoad
  | LeaseLoad
  | AckLoad
  | CycleLoad
  | SingleCycleLoad
  | PickUpLoad
  | ParkLoad
  | FloodLoad
  | ReadLoad
  | MortalLoad
  | StreamLoad
  | UnaryLoad
  | BareLoad;

export type ToGenerator =
  { readonly type: 'start'; readonly load: Load } | { readonly type: 'take' } | { readonly type: 'stop' };

export type FromGenerator =
  | { readonly type: 'started' }
  | { readonly type: 'taken'; readonly taken: Taken }
  | { readonly type: 'stopped'; readonly taken: Taken }
  | { readonly type: 'failed'; readonly message: string };
