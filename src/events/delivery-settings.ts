const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** How deliveries are retried: eight attempts within about a day. The delays are lengthened by up to a fifth. */
export const RETRY_DELAYS: readonly number[] = [
  10_000,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  6 * HOUR_MS,
  15 * HOUR_MS,
];
export const RETRY_JITTER = 0.2;

/** Settings of a queue of deliveries. Durations are milliseconds. */
export const QUEUE_SETTINGS = {
  visibilityTimeout: 30_000,
  maxAttempts: RETRY_DELAYS.length + 1,
  retry: JSON.stringify({ type: 'fixed', delays: RETRY_DELAYS, jitter: RETRY_JITTER }),
  retainCompleted: HOUR_MS,
  retainDead: 7 * DAY_MS,
  maxBacklog: 100_000,
} as const;

/** How long an event is worth telling: after it a delivery is dead. Milliseconds. */
export const WORTH_TELLING_MS = 3 * DAY_MS;
