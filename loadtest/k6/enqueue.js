// @ts-check
// How many jobs a second can be taken, and from what rate on answers get slow: an arrival rate that rises, stays and falls.
//
//   RATE      calls a second at the top                     (500)
//   BATCH     jobs in a call, at most 1000                  (1)
//   RAMP      how long it takes to rise, and to fall        (30s)
//   DURATION  how long it stays                             (2m)
//   VUS       virtual users at first; up to 10 times that   (100)
//
// and what lib.js reads.
import { begin, count, end, enqueue as send, HEALTHY, latency, newJob, text, TREND_STATS } from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const RATE = count('RATE', 500);
const BATCH = count('BATCH', 1);
const RAMP = text('RAMP', '30s');
const VUS = count('VUS', 100);

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    producers: {
      executor: 'ramping-arrival-rate',
      startRate: Math.ceil(RATE / 10),
      timeUnit: '1s',
      stages: [
        { target: RATE, duration: RAMP },
        { target: RATE, duration: text('DURATION', '2m') },
        { target: 0, duration: RAMP },
      ],
      preAllocatedVUs: VUS,
      maxVUs: VUS * 10,
      exec: 'enqueue',
    },
  },
  thresholds: {
    ...HEALTHY,
    ...latency('enqueue', { p95: 50, p99: 200 }),
    dropped_iterations: ['count<1'],
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '2m',
};

export function setup() {
  return begin('enqueue');
}

/** @param {Run} run */
export function enqueue({ queue }) {
  send(
    queue,
    Array.from({ length: BATCH }, () => newJob()),
  );
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
