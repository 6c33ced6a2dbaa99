// @ts-check
// What a job costs from end to end: each iteration enqueues one, leases one and acks it, three calls over HTTP.
//
//   RATE      iterations a second                           (100)
//   DURATION  how long                                      (2m)
//   VUS       virtual users at first; up to 10 times that   (50)
//
// and what lib.js reads.
import { check } from 'k6';
import { Trend } from 'k6/metrics';
import {
  ack,
  begin,
  count,
  end,
  enqueue,
  HEALTHY,
  latency,
  lease,
  newJob,
  percentiles,
  text,
  TREND_STATS,
} from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const VUS = count('VUS', 50);
const BOUNDS = { p95: 50, p99: 200 };
const whole = new Trend('stint_lifecycle_duration', true);

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    lifecycle: {
      executor: 'constant-arrival-rate',
      rate: count('RATE', 100),
      timeUnit: '1s',
      duration: text('DURATION', '2m'),
      preAllocatedVUs: VUS,
      maxVUs: VUS * 10,
      exec: 'lifecycle',
    },
  },
  thresholds: {
    ...HEALTHY,
    ...latency('enqueue', BOUNDS),
    ...latency('lease', BOUNDS),
    ...latency('ack', BOUNDS),
    stint_lifecycle_duration: percentiles({ p95: 150, p99: 500 }),
    dropped_iterations: ['count<1'],
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '2m',
};

export function setup() {
  return begin('lifecycle');
}

/** @param {Run} run */
export function lifecycle({ queue }) {
  const start = Date.now();
  if (!enqueue(queue, [newJob()])) return;
  // Not always the one just enqueued; but there are never fewer jobs than users who want one.
  const jobs = lease(queue, { waitSeconds: 5 });
  if (!check(jobs, { 'lease: it brings a job': ({ length }) => length === 1 })) return;
  ack(jobs);
  whole.add(Date.now() - start);
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
