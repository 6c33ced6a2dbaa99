// @ts-check
// Whether one tenant's flood is its own trouble: a quiet tenant goes through the lifecycle of few jobs, first alone, then while another
// sends batches as fast as it can and works them off. The quiet one is to notice next to nothing.
//
//   STINT_KEY            the key of the tenant that floods; it may be put off (429), which is counted and no failure  (required)
//   STINT_NEIGHBOUR_KEY  the key of the quiet tenant; another one                                                     (required)
//   RATE                 lifecycles a second of the quiet tenant                                                      (10)
//   VUS                  virtual users that flood; half as many work for it                                           (20)
//   BATCH                jobs in each of its calls, at most 1000                                                      (200)
//   ALONE                how long the quiet one is alone                                                              (30s)
//   DURATION             how long the flood is                                                                        (2m)
//   P99_MS               bound of the quiet tenant's p99 beside the flood                                             (250)
//
// and what lib.js reads. Both keys need the scope `read` (or `manage`) too, so that they can be told to be of two tenants.
import { check, fail } from 'k6';
import {
  ack,
  begin,
  bodyOf,
  call,
  count,
  end,
  enqueue,
  HEALTHY,
  latency,
  lease,
  newJob,
  OWN,
  said,
  seconds,
  text,
  TREND_STATS,
} from './lib.js';

/** @typedef {{ loud: import('./lib.js').Run, quiet: import('./lib.js').Run }} Runs */

const LOUD = { ...OWN, tags: { tenant: 'loud' } };
const QUIET = { key: text('STINT_NEIGHBOUR_KEY', ''), tags: { tenant: 'quiet' } };
const VUS = count('VUS', 20);
const BATCH = count('BATCH', 200);
const ALONE = seconds('ALONE', '30s');
const DURATION = seconds('DURATION', '2m');
const BOUNDS = { p95: 100, p99: 250 };

/** @param {number} startTime @param {number} duration @returns {import('./lib.js').Scenario} */
function neighbour(startTime, duration) {
  const rate = count('RATE', 10);
  return {
    executor: 'constant-arrival-rate',
    rate,
    timeUnit: '1s',
    startTime: `${startTime}s`,
    duration: `${duration}s`,
    preAllocatedVUs: Math.max(10, rate),
    maxVUs: Math.max(50, rate * 5),
    exec: 'live',
  };
}

/** @param {string} exec @param {number} vus @returns {import('./lib.js').Scenario} */
function flooding(exec, vus) {
  return { executor: 'constant-vus', vus, startTime: `${ALONE}s`, duration: `${DURATION}s`, exec };
}

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    alone: neighbour(0, ALONE),
    beside: neighbour(ALONE, DURATION),
    flood: flooding('flood', VUS),
    floodworkers: flooding('workOff', Math.ceil(VUS / 2)),
  },
  thresholds: {
    'checks{tenant:quiet}': ['rate==1'],
    'stint_refused{tenant:quiet}': ['rate==0'],
    http_req_failed: HEALTHY.http_req_failed,
    ...latency('enqueue', BOUNDS, { scenario: 'alone' }),
    ...latency('lease', BOUNDS, { scenario: 'alone' }),
    ...latency('ack', BOUNDS, { scenario: 'alone' }),
    ...latency('enqueue', BOUNDS, { scenario: 'beside' }),
    ...latency('lease', BOUNDS, { scenario: 'beside' }),
    ...latency('ack', BOUNDS, { scenario: 'beside' }),
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '3m',
};

/** @returns {Runs} */
export function setup() {
  if (QUIET.key === '') fail('the key of the quiet tenant is missing: set STINT_NEIGHBOUR_KEY');
  if (tenantOf(LOUD) === tenantOf(QUIET)) fail('STINT_KEY and STINT_NEIGHBOUR_KEY are of the same tenant');
  return { loud: begin('noisy', LOUD), quiet: begin('noisy', QUIET) };
}

/** @param {import('./lib.js').Caller} as */
function tenantOf(as) {
  const response = call({ op: 'tenant', method: 'GET', path: '/v1/tenant' }, as);
  if (response.status !== 200)
    fail(`a key cannot say its tenant, for which it needs the scope read: ${said(response)}`);
  return /** @type {{ id: string }} */ (bodyOf(response)).id;
}

/** @param {Runs} runs */
export function live({ quiet }) {
  if (!enqueue(quiet.queue, [newJob()], QUIET)) return;
  const jobs = lease(quiet.queue, { waitSeconds: 5 }, QUIET);
  if (check(jobs, { 'lease: it brings a job': ({ length }) => length === 1 }, QUIET.tags)) ack(jobs, QUIET);
}

/** @param {Runs} runs */
export function flood({ loud }) {
  enqueue(
    loud.queue,
    Array.from({ length: BATCH }, () => newJob()),
    LOUD,
  );
}

/** @param {Runs} runs */
export function workOff({ loud }) {
  const jobs = lease(loud.queue, { maxJobs: BATCH, waitSeconds: 2 }, LOUD);
  if (jobs.length > 0) ack(jobs, LOUD);
}

/** @param {Runs} runs */
export function teardown({ loud, quiet }) {
  end(loud, LOUD);
  end(quiet, QUIET);
}
