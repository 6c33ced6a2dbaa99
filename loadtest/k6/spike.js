// @ts-check
// Whether a burst is survived: a steady rate, then all at once many times that, then the steady rate again. During the burst calls may be
// put off (429, 503 with Retry-After), none may fail, and afterwards everything is as fast as before.
//
//   RATE      calls a second before and after               (50)
//   PEAK      calls a second in the burst                   (2000)
//   DURATION  how long before, and how long after           (1m)
//   SPIKE     how long the burst is                         (30s)
//   REST      pause after the burst, to work off what waits (15s)
//   VUS       virtual users for the burst                   (500)
//   WORKERS   virtual users that lease and ack              (20)
//
// and what lib.js reads.
import { ack, begin, count, end, enqueue, HEALTHY, latency, lease, newJob, seconds, TREND_STATS } from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const RATE = count('RATE', 50);
const VUS = count('VUS', 500);
const DURATION = seconds('DURATION', '1m');
const SPIKE = seconds('SPIKE', '30s');
const AFTER = DURATION + SPIKE + seconds('REST', '15s');
const BATCH = 50;

/** @param {number} startTime @returns {import('./lib.js').Scenario} */
function steady(startTime) {
  return {
    executor: 'constant-arrival-rate',
    rate: RATE,
    timeUnit: '1s',
    startTime: `${startTime}s`,
    duration: `${DURATION}s`,
    preAllocatedVUs: Math.max(10, Math.ceil(RATE / 5)),
    maxVUs: Math.max(50, RATE * 2),
    exec: 'produce',
  };
}

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    before: steady(0),
    burst: {
      executor: 'constant-arrival-rate',
      rate: count('PEAK', 2000),
      timeUnit: '1s',
      startTime: `${DURATION}s`,
      duration: `${SPIKE}s`,
      preAllocatedVUs: VUS,
      maxVUs: VUS,
      exec: 'produce',
    },
    after: steady(AFTER),
    workers: {
      executor: 'constant-vus',
      vus: count('WORKERS', 20),
      duration: `${AFTER + DURATION}s`,
      exec: 'work',
    },
  },
  thresholds: {
    checks: HEALTHY.checks,
    http_req_failed: HEALTHY.http_req_failed,
    'stint_refused{scenario:before}': ['rate==0'],
    'stint_refused{scenario:after}': ['rate==0'],
    ...latency('enqueue', { p95: 50, p99: 200 }, { scenario: 'before' }),
    ...latency('enqueue', { p95: 2000, p99: 5000 }, { scenario: 'burst' }),
    ...latency('enqueue', { p95: 50, p99: 200 }, { scenario: 'after' }),
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '2m',
};

export function setup() {
  return begin('spike');
}

/** @param {Run} run */
export function produce({ queue }) {
  enqueue(queue, [newJob()]);
}

/** @param {Run} run */
export function work({ queue }) {
  const jobs = lease(queue, { maxJobs: BATCH, waitSeconds: 2 });
  if (jobs.length > 0) ack(jobs);
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
