// @ts-check
// Whether everything works: each call that a producer and a worker make, one after the other. Seconds; run it after every deployment.
//
//   VUS         virtual users                    (1)
//   ITERATIONS  rounds, of all users together    (20)
//
// and what lib.js reads.
import { check } from 'k6';
import { ack, begin, bodyOf, call, count, end, enqueue, HEALTHY, latency, lease, newJob, TREND_STATS } from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const BOUNDS = { p95: 250, p99: 500 };

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    smoke: {
      executor: 'shared-iterations',
      vus: count('VUS', 1),
      iterations: count('ITERATIONS', 20),
      maxDuration: '2m',
      exec: 'smoke',
    },
  },
  thresholds: {
    ...HEALTHY,
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    ...latency('enqueue', BOUNDS),
    ...latency('lease', BOUNDS),
    ...latency('ack', BOUNDS),
  },
  summaryTrendStats: TREND_STATS,
};

export function setup() {
  return begin('smoke');
}

/** @param {Run} run */
export function smoke({ queue }) {
  const job = newJob();
  enqueue(queue, [job]);
  const again = { op: 'enqueue-again', path: `/v1/queues/${queue}/jobs`, body: job };
  expect(again, 'it is the same job', (/** @type {{ deduplicated: boolean }} */ { deduplicated }) => deduplicated);
  enqueue(queue, [newJob(), newJob(), newJob()]);
  const jobs = lease(queue, { maxJobs: 4, waitSeconds: 5 });
  check(jobs, { 'lease: it brings jobs': ({ length }) => length > 0 });
  const [first] = jobs;
  if (first === undefined) return;
  settle('heartbeat', { items: jobs.map(({ leaseToken }) => ({ leaseToken, visibilityTimeout: '1m' })) });
  ack(jobs);
  const get = { op: 'get-job', method: 'GET', path: `/v1/jobs/${first.id}?wait=5s`, waitSeconds: 5 };
  expect(get, 'it is completed', (/** @type {{ state: string }} */ { state }) => state === 'completed');
  handBack(queue);
}

/** One more job, handed back once and then done. @param {string} queue */
function handBack(queue) {
  enqueue(queue, [newJob()]);
  const jobs = lease(queue, { waitSeconds: 5 });
  if (jobs.length === 0) return;
  settle('release', { items: jobs.map(({ leaseToken }) => ({ leaseToken })) });
  ack(lease(queue, { waitSeconds: 5 }));
}

/** @param {string} verb @param {object} body */
function settle(verb, body) {
  /** @param {{ results: { outcome: string }[] }} answer */
  const isOk = ({ results }) => results.every(({ outcome }) => outcome === 'OK');
  expect({ op: verb, path: `/v1/leases/${verb}`, body }, 'OK', isOk);
}

/**
 * Makes a call that is to be answered 200, with a body of which something holds.
 * @template Body @param {import('./lib.js').Request} request @param {string} what @param {(body: Body) => boolean} holds
 */
function expect(request, what, holds) {
  const { op } = request;
  const response = call(request);
  if (!check(response, { [`${op}: 200`]: ({ status }) => status === 200 })) return;
  check(response, { [`${op}: ${what}`]: (answer) => holds(bodyOf(answer)) });
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
