/** The queues of the load, and what is set on them: short retries, so that a run drains soon, and one where jobs die. */
export const QUEUES: Readonly<Record<string, unknown>> = {
  orders: { maxAttempts: 50, retry: { type: 'fixed', delays: ['0s', '200ms', '1s'] } },
  mails: { maxAttempts: 50, retry: { type: 'exponential', initial: '100ms', factor: 2, max: '1s', jitter: 0.2 } },
  fragile: { maxAttempts: 3, retry: { type: 'fixed', delays: ['100ms'] } },
};
