// @ts-check
// The lifecycle of a job over gRPC: each iteration enqueues one, leases one and acks it. Compare with lifecycle.js.
//
//   STINT_GRPC   host and port of gRPC                                                              (127.0.0.1:9090)
//   STINT_PROTO  the contract's directory, as seen from this file; `reflection` asks the service    (../../proto)
//   STINT_TLS    1 speaks TLS                                                                       (0)
//   RATE         iterations a second                                                                (100)
//   DURATION     how long                                                                           (2m)
//   VUS          virtual users at first; up to 10 times that; each has a connection of its own      (50)
//
// and what lib.js reads: setup and teardown speak HTTP.
import { check, sleep } from 'k6';
import encoding from 'k6/encoding';
import { Counter, Rate, Trend } from 'k6/metrics';
import grpc from 'k6/net/grpc';
import { begin, count, end, HEALTHY, newJob, OWN, percentiles, text, TREND_STATS, WORKER } from './lib.js';

/** @typedef {import('./lib.js').Run} Run */
/** @typedef {{ id: string, leaseToken: string }} LeasedJob */

const TARGET = text('STINT_GRPC', '127.0.0.1:9090');
const PROTO = text('STINT_PROTO', '../../proto');
const PLAINTEXT = text('STINT_TLS', '0') !== '1';
const VUS = count('VUS', 50);
const ATTEMPTS = 20;

const whole = new Trend('stint_lifecycle_duration', true);
const failed = new Rate('stint_grpc_failed');
const refused = new Rate('stint_refused');
const enqueued = new Counter('stint_enqueued');
const acked = new Counter('stint_acked');

const client = new grpc.Client();
if (PROTO !== 'reflection') client.load([PROTO], 'stint/v1/jobs.proto');
let isConnected = false;

/** @type {import('./lib.js').Options} */
export const options = {
  scenarios: {
    grpc: {
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
    checks: HEALTHY.checks,
    stint_grpc_failed: ['rate<0.001'],
    stint_refused: HEALTHY.stint_refused,
    'grpc_req_duration{op:enqueue}': percentiles({ p95: 50, p99: 200 }),
    'grpc_req_duration{op:lease}': percentiles({ p95: 50, p99: 200 }),
    'grpc_req_duration{op:ack}': percentiles({ p95: 50, p99: 200 }),
    stint_lifecycle_duration: percentiles({ p95: 150, p99: 500 }),
    dropped_iterations: ['count<1'],
  },
  summaryTrendStats: TREND_STATS,
  teardownTimeout: '2m',
};

export function setup() {
  return begin('grpc');
}

/** Makes a call, and again after a pause while it is put off. @param {string} op @param {string} method @param {object} message */
function invoke(op, method, message) {
  const params = { metadata: { authorization: `Bearer ${OWN.key}` }, tags: { op }, timeout: '30s' };
  for (let attempt = 1; ; attempt += 1) {
    const response = client.invoke(`stint.v1.Jobs/${method}`, message, params);
    const { status } = response;
    const isRefused = status === grpc.StatusUnavailable || status === grpc.StatusResourceExhausted;
    refused.add(isRefused, { op });
    if (isRefused && attempt < ATTEMPTS) {
      sleep(retryDelay(response.error) * (1 + Math.random() / 4));
      continue;
    }
    failed.add(status !== grpc.StatusOK, { op });
    check(response, { [`${op}: OK`]: (answer) => answer.status === grpc.StatusOK });
    return status === grpc.StatusOK ? response.message : undefined;
  }
}

/** Seconds that RetryInfo tells, or one. @param {unknown} error */
function retryDelay(error) {
  const { details = [] } = /** @type {{ details?: { retryDelay?: string }[] }} */ (error ?? {});
  const told = details.map(({ retryDelay }) => Number.parseFloat(retryDelay ?? '')).find((delay) => delay > 0);
  return told ?? 1;
}

/** @param {Run} run */
export function lifecycle({ queue }) {
  if (!isConnected) client.connect(TARGET, { plaintext: PLAINTEXT, reflect: PROTO === 'reflection' });
  isConnected = true;
  const start = Date.now();
  const { kind, idempotencyKey, payload } = newJob();
  // Bytes are base64 in the JSON form of protobuf.
  const sent = { queue, kind, idempotencyKey, payload: encoding.b64encode(JSON.stringify(payload)) };
  if (invoke('enqueue', 'Enqueue', sent) === undefined) return;
  enqueued.add(1);
  const wanted = { queue, maxJobs: 1, wait: '5s', visibilityTimeout: '30s', worker: WORKER };
  const leased = /** @type {{ jobs: LeasedJob[] } | undefined} */ (invoke('lease', 'Lease', wanted));
  const jobs = leased?.jobs ?? [];
  if (!check(jobs, { 'lease: it brings a job': ({ length }) => length === 1 })) return;
  const items = jobs.map(({ leaseToken }) => ({ leaseToken, result: encoding.b64encode('{"sent":true}') }));
  const answer = /** @type {{ results: { outcome: string }[] } | undefined} */ (invoke('ack', 'Ack', { items }));
  const isAcked = check(answer?.results ?? [], {
    'ack: OK': ([result]) => /_(OK|ALREADY_SETTLED)$/.test(result?.outcome ?? ''),
  });
  if (isAcked) acked.add(1);
  whole.add(Date.now() - start);
}

/** @param {Run} run */
export function teardown(run) {
  end(run);
}
