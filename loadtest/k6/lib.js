// @ts-check
// What the scripts share: settings, calls that follow Retry-After, setup and teardown. Every script reads, beside its own:
//
//   STINT_KEY            the API key, of scopes `enqueue` and `work`; with `manage` the run's queue is deleted at the end   (required)
//   STINT_URL            where the REST API is                                                                            (http://127.0.0.1:8080)
//   STINT_QUEUE_PREFIX   the run's queue is called <prefix>-<script>-<time>-<random>                                      (k6)
//   STINT_KEEP           1 leaves the queue as the run has left it, to be looked at                                       (0)
//   PAYLOAD_BYTES        about how many bytes a payload has                                                               (600)
//   P95_MS, P99_MS       bounds of the latency thresholds in place of the script's
/* global __ENV */
import { check, fail, sleep } from 'k6';
import http from 'k6/http';
import { Counter, Rate } from 'k6/metrics';

/** @typedef {{ key: string, tags: Record<string, string> }} Caller whose key is used, and what its requests are tagged with */
/** @typedef {{ queue: string, managed: boolean }} Run what setup hands to the iterations and to teardown */
/** @typedef {{ id: string, attempt: number, leaseToken: string, payload?: Order }} LeasedJob */
/** @typedef {{ kind: string, idempotencyKey: string, payload: Order, delay?: string, priority?: number }} NewJob */
/** @typedef {{ acks?: object[], nacks?: object[] }} Settles */
/** @typedef {{ op: string, path: string, method?: string, body?: object, waitSeconds?: number, also?: number[] }} Request */
/** @typedef {ReturnType<typeof order>} Order */
/** @template T @typedef {{ [Key in keyof T]: T[Key] }} Plain of a class the interface alone */
/** @typedef {Plain<import('k6/options').Scenario>} Scenario */
/** @typedef {Omit<import('k6/options').Options, 'scenarios'> & { scenarios: Record<string, Scenario> }} Options */

const URL = text('STINT_URL', 'http://127.0.0.1:8080').replace(/\/+$/, '');
const PREFIX = text('STINT_QUEUE_PREFIX', 'k6');
const KEEP = text('STINT_KEEP', '0') === '1';
const PAYLOAD_BYTES = count('PAYLOAD_BYTES', 600);

/** A call that is refused for the moment is made this often in all. */
const ATTEMPTS = 20;
/** How long teardown works off what is left, where it may not delete the queue. */
const DRAIN_MS = 60_000;
const VISIBILITY_TIMEOUT = '30s';

const refused = new Rate('stint_refused');
const enqueued = new Counter('stint_enqueued');
const acked = new Counter('stint_acked');

/** Names this virtual user among all of all runs; the init code runs once for each. */
export const WORKER = `k6-${Math.random().toString(36).slice(2, 12)}`;
let jobsMade = 0;

/** @type {Caller} */
export const OWN = { key: text('STINT_KEY', ''), tags: {} };

/** Most calls go through, few are put off, none fails. */
export const HEALTHY = {
  checks: ['rate>0.999'],
  http_req_failed: ['rate<0.001'],
  stint_refused: ['rate<0.01'],
};

export const TREND_STATS = ['avg', 'min', 'med', 'p(95)', 'p(99)', 'max'];

/** @param {string} name @param {string} fallback */
export function text(name, fallback) {
  const value = __ENV[name];
  return value === undefined || value === '' ? fallback : value;
}

/** A whole number of at least 1. @param {string} name @param {number} fallback */
export function count(name, fallback) {
  const value = Number(text(name, String(fallback)));
  if (!Number.isInteger(value) || value < 1) throw new Error(`${name} is to be a whole number of at least 1`);
  return value;
}

/** Whole seconds, from `90s`, `2m` or `1h30m`. @param {string} name @param {string} fallback */
export function seconds(name, fallback) {
  const parts = /^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text(name, fallback));
  const [hours, minutes, rest] = [1, 2, 3].map((index) => Number(parts?.[index] ?? 0));
  const total = (hours ?? 0) * 3600 + (minutes ?? 0) * 60 + (rest ?? 0);
  if (total < 1) throw new Error(`${name} is to be a duration such as 90s, 2m or 1h30m`);
  return total;
}

/**
 * Thresholds on one kind of call, in milliseconds.
 * @param {string} op @param {{ p95: number, p99: number }} bounds @param {Record<string, string>} [tags]
 */
export function latency(op, { p95, p99 }, tags = {}) {
  const selector = Object.entries({ op, ...tags }).map(([name, value]) => `${name}:${value}`);
  return { [`http_req_duration{${selector.join(',')}}`]: percentiles({ p95, p99 }) };
}

/** @param {{ p95: number, p99: number }} bounds milliseconds, unless P95_MS and P99_MS say otherwise */
export function percentiles({ p95, p99 }) {
  return [`p(95)<${count('P95_MS', p95)}`, `p(99)<${count('P99_MS', p99)}`];
}

/** Makes a call, and again after Retry-After while it is put off with 429 or 503. @param {Request} request @param {Caller} as */
export function call({ op, path, method = 'POST', body, waitSeconds = 0, also = [] }, as = OWN) {
  const tags = { ...as.tags, op, name: op };
  const params = {
    headers: { Authorization: `Bearer ${as.key}`, 'Content-Type': 'application/json' },
    tags,
    timeout: `${waitSeconds + 30}s`,
    responseCallback: http.expectedStatuses({ min: 200, max: 299 }, 429, 503, ...also),
  };
  const sent = body === undefined ? null : JSON.stringify(body);
  for (let attempt = 1; ; attempt += 1) {
    const response = http.request(method, URL + path, sent, params);
    const isRefused = response.status === 429 || response.status === 503;
    refused.add(isRefused, tags);
    if (!isRefused || attempt === ATTEMPTS) return response;
    const told = Number(response.headers['Retry-After'] ?? 1);
    sleep(told * (1 + Math.random() / 4));
  }
}

/** The body of an answer that is known to be JSON. @template T @param {import('k6/http').Response} response @returns {T} */
export function bodyOf(response) {
  return /** @type {T} */ (/** @type {unknown} */ (response.json()));
}

/** A payload as shops send them, padded to PAYLOAD_BYTES. @param {{ failures?: number }} more how often its worker is to fail */
export function order(more = {}) {
  const number = Math.floor(Math.random() * 1e9);
  const made = {
    orderId: `ord_${number}`,
    sentAt: Date.now(),
    customer: { id: `cus_${number % 50_000}`, email: `customer${number % 50_000}@example.com`, locale: 'en-GB' },
    lines: [
      { sku: `SKU-${number % 9_973}`, quantity: 1 + (number % 3), unitPrice: '19.90' },
      { sku: `SKU-${number % 7_919}`, quantity: 1, unitPrice: '4.50' },
    ],
    currency: 'EUR',
    note: '',
    failures: 0,
    ...more,
  };
  made.note = 'Please ring twice. '.repeat(200).slice(0, Math.max(0, PAYLOAD_BYTES - JSON.stringify(made).length));
  return made;
}

/** @param {Partial<NewJob>} more @returns {NewJob} */
export function newJob(more = {}) {
  jobsMade += 1;
  return { kind: 'order.confirm', idempotencyKey: `${WORKER}-${jobsMade}`, payload: order(), ...more };
}

/** One job by a call of its own, several as one batch; answers whether they are there. @param {string} queue @param {NewJob[]} jobs */
export function enqueue(queue, jobs, as = OWN) {
  const response =
    jobs.length === 1
      ? call({ op: 'enqueue', path: `/v1/queues/${queue}/jobs`, body: jobs[0] }, as)
      : call({ op: 'enqueue', path: '/v1/jobs/batch', body: { jobs: jobs.map((job) => ({ queue, ...job })) } }, as);
  // 200: a call before this one had got through, and its answer had not.
  const isThere = check(response, { 'enqueue: 201': ({ status }) => status === 201 || status === 200 }, as.tags);
  if (isThere) enqueued.add(jobs.length, as.tags);
  return isThere;
}

/**
 * @param {string} queue @param {{ maxJobs?: number, waitSeconds?: number, settle?: Settles }} options
 * @returns {LeasedJob[]}
 */
export function lease(queue, { maxJobs = 1, waitSeconds = 0, settle }, as = OWN) {
  const wanted = { maxJobs, wait: `${waitSeconds}s`, visibilityTimeout: VISIBILITY_TIMEOUT, worker: WORKER };
  const body = settle === undefined ? wanted : { ...wanted, settle };
  const op = settle === undefined ? 'lease' : 'settle';
  const response = call({ op, path: `/v1/queues/${queue}/lease`, body, waitSeconds }, as);
  if (!check(response, { [`${op}: 200`]: ({ status }) => status === 200 }, as.tags)) return [];
  /** @type {{ jobs: LeasedJob[], settled?: { acks: Outcome[], nacks: Outcome[] } }} */
  const { jobs, settled } = bodyOf(response);
  if (settled !== undefined) {
    countOutcomes(settled.acks, as);
    check(settled.nacks, { 'nack: OK': (nacks) => nacks.every(isSettled) }, as.tags);
  }
  return jobs;
}

/** @param {LeasedJob[]} jobs */
export function ack(jobs, as = OWN) {
  const items = jobs.map(({ leaseToken }) => ({ leaseToken, result: { sent: true } }));
  const response = call({ op: 'ack', path: '/v1/leases/ack', body: { items } }, as);
  if (!check(response, { 'ack: 200': ({ status }) => status === 200 }, as.tags)) return;
  /** @type {{ results: Outcome[] }} */
  const { results } = bodyOf(response);
  countOutcomes(results, as);
}

/** @typedef {{ outcome: string }} Outcome */
/** @param {Outcome} result */
function isSettled({ outcome }) {
  return outcome === 'OK' || outcome === 'ALREADY_SETTLED';
}

/** @param {Outcome[]} acks @param {Caller} as */
function countOutcomes(acks, as) {
  check(acks, { 'ack: OK': (all) => all.every(isSettled) }, as.tags);
  acked.add(acks.filter(isSettled).length, as.tags);
}

/**
 * For setup: ends the run unless the service is ready and the key may enqueue and work; makes a queue for this run alone.
 * @param {string} script @returns {Run}
 */
export function begin(script, as = OWN) {
  if (as.key === '') fail('the key is missing: set STINT_KEY');
  const ready = http.get(`${URL}/readyz`, { tags: { op: 'ready', name: 'ready' } });
  if (ready.status !== 200) fail(`${URL} is not ready: ${said(ready)}`);
  const queue = `${PREFIX}-${script}-${Date.now().toString(36)}-${WORKER.slice(-4)}`;
  const put = call({ op: 'put-queue', method: 'PUT', path: `/v1/queues/${queue}`, body: {}, also: [403] }, as);
  if (put.status !== 200 && put.status !== 403) fail(`the queue cannot be made: ${said(put)}`);
  const run = { queue, managed: put.status === 200 };
  if (!enqueue(queue, [newJob()], as)) giveUp(run, 'the key cannot enqueue: it needs the scope `enqueue`', as);
  const jobs = lease(queue, { waitSeconds: 5 }, as);
  if (jobs.length === 0) giveUp(run, 'the key cannot lease: it needs the scope `work`', as);
  ack(jobs, as);
  return run;
}

/** No teardown follows on a setup that has failed. @param {Run} run @param {string} reason @param {Caller} as */
function giveUp(run, reason, as) {
  end(run, as);
  fail(reason);
}

/** What came instead of the answer that was hoped for. @param {import('k6/http').Response} response */
export function said({ status, error, body }) {
  return status === 0 ? error : `${status} ${typeof body === 'string' ? body : ''}`;
}

/** For teardown: deletes the run's queue; without the scope for that, works off what is left in it. @param {Run} run */
export function end({ queue, managed }, as = OWN) {
  if (KEEP) return;
  if (managed) {
    const response = call({ op: 'delete-queue', method: 'DELETE', path: `/v1/queues/${queue}?force=true` }, as);
    check(response, { 'delete-queue: 200': ({ status }) => status === 200 }, as.tags);
    return;
  }
  const deadline = Date.now() + DRAIN_MS;
  let jobs = lease(queue, { maxJobs: 500, waitSeconds: 2 }, as);
  while (jobs.length > 0 && Date.now() < deadline) {
    ack(jobs, as);
    jobs = lease(queue, { maxJobs: 500, waitSeconds: 2 }, as);
  }
}
