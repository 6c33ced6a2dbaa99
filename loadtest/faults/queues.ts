/** The retry policies of the load, completely written out. */
export type LoadRetry =
  | { readonly type: 'fixed'; readonly delays: readonly string[] }
  | {
      readonly type: 'exponential';
      readonly initial: string;
      readonly factor: number;
      readonly max: string;
      readonly jitter: number;
    };

export interface LoadQueue {
  readonly maxAttempts: number;
  readonly retry: LoadRetry;
  readonly maxInFlight?: number;
}

/** The queue with a bound on its leases, which is turned during the run. */
export const BOUNDED = 'narrow';
/** Stands for no bound. */
export const UNBOUNDED = 1_000_000;
/** The queue whose jobs are nacked a whole lease at a time. */
export const STORMY = 'storms';

/** The queues of the load, and what is set on them: short retries, so that a run drains soon, and one where jobs die. */
export const QUEUES: Readonly<Record<string, LoadQueue>> = {
  orders: { maxAttempts: 50, retry: { type: 'fixed', delays: ['0s', '200ms', '1s'] } },
  mails: { maxAttempts: 50, retry: { type: 'exponential', initial: '100ms', factor: 2, max: '1s', jitter: 0.2 } },
  fragile: { maxAttempts: 3, retry: { type: 'fixed', delays: ['100ms'] } },
  [BOUNDED]: { maxAttempts: 50, retry: { type: 'fixed', delays: ['0s'] }, maxInFlight: 4 },
  [STORMY]: { maxAttempts: 50, retry: { type: 'exponential', initial: '2s', factor: 1, max: '2s', jitter: 0.4 } },
};

/** How much of the load each is offered. What a few leases at once can take is little. */
export const SHARES = { orders: 30, mails: 30, fragile: 30, [BOUNDED]: 3, [STORMY]: 7 } as const;
