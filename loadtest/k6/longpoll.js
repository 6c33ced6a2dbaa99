// @ts-check
// Whether a thousand idle workers cost next to nothing, and how soon one of them has a job: all park in long polls, few jobs come.
//
//   VUS       parked workers                                     (1000)
//   RATE      jobs a second                                      (50)
//   DURATION  how long                                           (2m)
//   WAIT      how long a lease waits, at most 50s behind proxies (20s)
//
// and what lib.js reads. A tenant with a limit `parkedLeases` needs one of more than VUS.
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
  seconds,
  TREND_STATS,
} from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const RATE = count('RATE', 50);
const WAIT = seconds('WAIT', '20s');
const DURATION = seconds('DURATION', '2m');
/** From before the enqueue to the answer of the lease, by the clock of this process: with several runners it is off by their clocks. */
const pickup = new Trend('stint_pickup_duration', true);
/** Jobs wait for workers at the start and not for the service, so the producers begin once the workers are parked. */
const PARKING = 5;

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    producers: {
      executor: 'constant-arrival-rate',
      rate: RATE,
      timeUnit: '1s',
      startTime: `${PARKING}s`,
      duration: `${DURATION}s`,
      preAllocatedVUs: Math.max(10, Math.ceil(RATE / 5)),
      maxVUs: Math.max(100, RATE),
      exec: 'produce',
    },
    workers: {
      executor: 'constant-vus',
      vus: count('VUS', 1000),
      duration: `${PARKING + DURATION}s`,
      gracefulStop: `${WAIT + 10}s`,
      exec: 'work',
    },
  },
  thresholds: {
    ...HEALTHY,
    ...latency('enqueue', { p95: 50, p99: 200 }),
    ...latency('ack', { p95: 50, p99: 200 }),
    stint_pickup_duration: percentiles({ p95: 100, p99: 300 }),
    dropped_iterations: ['count<1'],
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '2m',
};

export function setup() {
  return begin('longpoll');
}

/** @param {Run} run */
export function produce({ queue }) {
  enqueue(queue, [newJob()]);
}

/** @param {Run} run */
export function work({ queue }) {
  const jobs = lease(queue, { waitSeconds: WAIT });
  const now = Date.now();
  for (const { payload } of jobs) if (payload !== undefined) pickup.add(now - payload.sentAt);
  if (jobs.length > 0) ack(jobs);
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
