// @ts-check
// Whether it stays as it is over hours: a steady rate of jobs, some delayed, some failing once, some urgent, and workers that settle what
// they have with the call that leases the next. The second half is held to the same bounds as the first.
//
//   RATE      calls a second, each with 1 to 5 jobs           (50)
//   DURATION  how long                                        (4h)
//   VUS       virtual users that work; as many at first send  (20)
//
// and what lib.js reads.
import exec from 'k6/execution';
import { begin, count, end, enqueue, HEALTHY, latency, lease, newJob, order, OWN, text, TREND_STATS } from './lib.js';

/** @typedef {import('./lib.js').Run} Run */

const VUS = count('VUS', 20);
const DURATION = text('DURATION', '4h');
const BOUNDS = { p95: 100, p99: 300 };
const BATCH = 20;

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    producers: {
      executor: 'constant-arrival-rate',
      rate: count('RATE', 50),
      timeUnit: '1s',
      duration: DURATION,
      preAllocatedVUs: VUS,
      maxVUs: VUS * 10,
      exec: 'produce',
    },
    workers: { executor: 'constant-vus', vus: VUS, duration: DURATION, exec: 'work' },
  },
  thresholds: {
    ...HEALTHY,
    ...latency('enqueue', BOUNDS, { half: 'first' }),
    ...latency('enqueue', BOUNDS, { half: 'second' }),
    ...latency('settle', BOUNDS, { half: 'first' }),
    ...latency('settle', BOUNDS, { half: 'second' }),
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '5m',
};

export function setup() {
  return begin('soak');
}

function caller() {
  return { ...OWN, tags: { half: exec.scenario.progress < 0.5 ? 'first' : 'second' } };
}

/** Of a hundred jobs five are for later, three fail once, ten are urgent. */
function someJob() {
  const chance = Math.random();
  if (chance < 0.05) return newJob({ delay: '5s' });
  if (chance < 0.08) return newJob({ payload: order({ failures: 1 }) });
  if (chance < 0.18) return newJob({ priority: 10 });
  return newJob();
}

/** @param {Run} run */
export function produce({ queue }) {
  const jobs = Array.from({ length: 1 + Math.floor(Math.random() * 5) }, someJob);
  enqueue(queue, jobs, caller());
}

/** Works while there is something to do; then the iteration ends. @param {Run} run */
export function work({ queue }) {
  const as = caller();
  let jobs = lease(queue, { maxJobs: BATCH, waitSeconds: 2 }, as);
  while (jobs.length > 0) jobs = lease(queue, { maxJobs: BATCH, settle: settlesOf(jobs) }, as);
}

/** @param {import('./lib.js').LeasedJob[]} jobs */
function settlesOf(jobs) {
  /** @param {import('./lib.js').LeasedJob} job */
  const fails = ({ payload, attempt }) => payload !== undefined && attempt <= payload.failures;
  return {
    acks: jobs.filter((job) => !fails(job)).map(({ leaseToken }) => ({ leaseToken, result: { sent: true } })),
    nacks: jobs.filter(fails).map(({ leaseToken }) => ({
      leaseToken,
      error: { message: 'the mail server is busy', type: 'temporary' },
      delay: '1s',
    })),
  };
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
