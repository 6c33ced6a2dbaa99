import { Caller } from '../caller.js';
import { Histogram } from '../histogram.js';
import type { Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import type { Load } from '../messages.js';
import { atLeast, atMost, medianRow, row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import { createTenant } from '../service.js';
import { median } from '../statistics.js';
import { targetOf } from './table.js';

const POLLS = 2_000;
const PAYLOAD_BYTES = 1_000_000;
const OFFERED = 100;
const LIMITS = {
  requestsPerSecond: 500,
  jobsPerSecond: 5,
  storedJobs: 20,
  parkedLeases: 1_500,
  payloadBytes: 1_048_576,
};
const STEADY = { clients: 20, rate: 200 };
const VERBS = ['enqueue', 'lease', 'ack'];
const SLOWER = 2;
/** Until the flood's connections are open. */
const FLOOD_WARM_SECONDS = 6;

/** Whether a tenant at its limits slows another one. */
export async function neighbours(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const flooding = await createTenant(service.base, service.adminKey, LIMITS);
  await makeQueue(service.base, flooding.key, 'empty');
  const steady: Load = { kind: 'single-cycle', target: targetOf(service), queue: 'steady', ...STEADY };
  const flood: Load = {
    kind: 'flood',
    target: { bases: [service.base], key: flooding.key },
    polls: POLLS,
    waitSeconds: 20,
    producers: 64,
    rate: OFFERED,
    payloadBytes: PAYLOAD_BYTES,
  };
  const parked: number[] = [];
  const watcher = new Caller(service.base, service.key);
  const sampling = setInterval(() => void parkedLeases(watcher).then((n) => parked.push(n)), 1_000);
  const { a: idle, b: flooded } = await interleaved(
    rig,
    { name: 'B alone', services: [service], loads: [steady] },
    { name: 'B beside a flood', services: [service], loads: [steady, flood], warmSeconds: FLOOD_WARM_SECONDS },
  ).finally(() => {
    clearInterval(sampling);
    return watcher.close();
  });
  const times = flooded.map((each, round) => callsOf(each).quantile(0.99) / callsOf(idle[round]!).quantile(0.99));
  const refused = flooded.map((each) => rateOf(each, 'polls refused') + rateOf(each, 'enqueues refused'));
  const wrong = [...idle, ...flooded].reduce((sum, { counts }) => sum + (counts['errors'] ?? 0), 0);
  return {
    mode: 'neighbours',
    title: `tenant B enqueues, leases and acks ${STEADY.rate} jobs/s; tenant A parks ${POLLS} leases and offers ${OFFERED} payloads of 1 MB a second`,
    rows: [
      ...latencyRows('B alone', idle),
      ...latencyRows('B beside the flood', flooded),
      medianRow(
        'p99 of all calls of B, beside the flood to alone',
        'times',
        times,
        atMost(SLOWER, median(times), 'times'),
      ),
      medianRow('B, alone', 'jobs/s', rates(idle, 'acked')),
      medianRow('B, beside the flood', 'jobs/s', rates(flooded, 'acked')),
      row('leases that were parked at once', Math.max(...parked), 'leases'),
      medianRow('enqueues of 1 MB that A had taken', 'calls/s', rates(flooded, 'enqueues')),
      medianRow('calls of A refused with 429', 'calls/s', refused, atLeast(1, median(refused), 'calls/s')),
      row('calls refused or failed otherwise, of A and B', wrong, 'calls', atMost(0, wrong, 'calls')),
      medianRow('processor time of the service, alone', 'millicores', millicores(idle)),
      medianRow('processor time of the service, beside the flood', 'millicores', millicores(flooded)),
    ],
    notes: [
      `limits of A: ${Object.entries(LIMITS)
        .map(([name, limit]) => `${name} ${limit}`)
        .join(', ')}; B has none`,
    ],
  };
}

async function makeQueue(base: string, key: string, queue: string): Promise<void> {
  const caller = new Caller(base, key);
  const { status, text } = await caller.call('PUT', `/v1/queues/${queue}`, '{}');
  await caller.close();
  if (status >= 300) throw new Error(`the queue was not made: ${status} ${text}`);
}

async function parkedLeases(caller: Caller): Promise<number> {
  const { text } = await caller.call('GET', '/metrics');
  return Number(/^stint_parked_leases (\d+)/m.exec(text)?.[1]);
}

/** All calls of B together. */
function callsOf({ latencies }: Measured): Histogram {
  const all = new Histogram();
  for (const verb of VERBS) all.merge(latencies[verb]?.toBuckets() ?? []);
  return all;
}

function latencyRows(name: string, measured: readonly Measured[]): Row[] {
  const quantiles = (of: (each: Measured) => Histogram | undefined, q: number): number[] =>
    measured.map((each) => of(each)?.quantile(q) ?? Number.NaN);
  return [
    medianRow(`${name}: p50 of all calls`, 'ms', quantiles(callsOf, 0.5)),
    medianRow(`${name}: p99 of all calls`, 'ms', quantiles(callsOf, 0.99)),
    ...VERBS.map((verb) =>
      medianRow(
        `${name}: ${verb} p99`,
        'ms',
        quantiles(({ latencies }) => latencies[verb], 0.99),
      ),
    ),
  ];
}

function rates(measured: readonly Measured[], name: string): number[] {
  return measured.map((each) => rateOf(each, name));
}

function millicores(measured: readonly Measured[]): number[] {
  return measured.map(({ cpu, seconds }) => cpu.service / seconds / 1_000);
}
