import { canMeasureCpu } from '../cpu.js';
import { measure, type Measured } from '../measure.js';
import { quantileOf, rateOf } from '../merge.js';
import type { CycleLoad, Load, Target } from '../messages.js';
import { atLeast, atMost, medianRow, ratioRow, row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import type { BenchService } from '../service.js';
import { median } from '../statistics.js';
import { bestBare } from './bare.js';

export const SINGLE_CLIENTS = 200;
export const BATCH = 100;
/** Of these the service keeps its flushes full; more only wait. */
export const BATCH_CLIENTS = 16;
const PICK_UP = { rate: 500, workers: 50 };

/** The figures that everybody asks for first, and what HTTP costs over the bare statements. */
export async function table(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const single = await callRates(rig, service, { clients: SINGLE_CLIENTS, batch: 1 });
  const batches = await callRates(rig, service, { clients: BATCH_CLIENTS, batch: BATCH });
  rig.say('pick-up latency');
  const pickUp = await measure(rig, {
    services: [service],
    loads: [{ kind: 'pick-up', target: targetOf(service), queue: 'pick-up', ...PICK_UP }],
  });
  const { cycles, bare, reference, connections } = await fullAndBare(rig, service);
  const jobs = cycles.map((each) => rateOf(each, 'acked'));
  return {
    mode: 'table',
    title: `calls of 256-byte jobs; ${SINGLE_CLIENTS} clients with single calls, ${BATCH_CLIENTS} with batches of ${BATCH}`,
    rows: [
      ...callRows('single calls', single),
      ...callRows(`batches of ${BATCH}`, batches),
      medianRow('full cycle over HTTP', 'jobs/s', jobs),
      medianRow(`bare SQL cycle, batches of ${BATCH}`, 'jobs/s', bare),
      ratioRow('full cycle over HTTP to bare SQL cycle', { of: jobs, to: bare }, 50),
      medianRow('bare SQL cycle, batches of 500', 'jobs/s', [reference]),
      ...pickUpRows(pickUp),
      ...costRows(cycles),
    ],
    notes: [
      `the bare SQL cycle is at its best with ${connections} connection${connections === 1 ? '' : 's'}; the service uses its own`,
    ],
  };
}

export function targetOf(...services: readonly BenchService[]): Target {
  return { bases: services.map(({ base }) => base), key: services[0]!.key };
}

/** Full cycle in batches, as fast as it goes. */
export function fullCycle(target: Target, options: Partial<CycleLoad> = {}): CycleLoad {
  return {
    kind: 'cycle',
    target,
    producers: 8,
    workers: 8,
    batch: BATCH,
    queues: ['cycle'],
    depth: 4_000,
    ...options,
  };
}

interface CallRates {
  readonly enqueue: number[];
  readonly lease: number[];
  readonly ack: number[];
}

/** What is enqueued in a round is leased and acked in it. */
async function callRates(
  rig: Rig,
  service: BenchService,
  { clients, batch }: { readonly clients: number; readonly batch: number },
): Promise<CallRates> {
  const rates: CallRates = { enqueue: [], lease: [], ack: [] };
  const common = { target: targetOf(service), clients, batch, queue: `calls-of-${batch}` };
  const warmSeconds = rig.scale.seconds / 5;
  for (let round = 0; round <= rig.scale.rounds; round += 1) {
    rig.say(`calls of ${batch}, ${round === 0 ? 'to warm up' : `round ${round}`}`);
    for (const [kind, done] of STEPS) {
      const load: Load = { kind, ...common };
      const seconds = round === 0 ? warmSeconds : rig.scale.seconds;
      const rate = rateOf(await measure(rig, { services: [service], loads: [load], warmSeconds, seconds }), done);
      if (round > 0) rates[kind].push(rate);
    }
  }
  return rates;
}

const STEPS = [
  ['enqueue', 'enqueued'],
  ['lease', 'leased'],
  ['ack', 'acked'],
] as const;

function callRows(name: string, { enqueue, lease, ack }: CallRates): Row[] {
  return [
    medianRow(`enqueue, ${name}`, 'jobs/s', enqueue),
    medianRow(`lease, ${name}`, 'jobs/s', lease),
    medianRow(`ack, ${name}`, 'jobs/s', ack),
  ];
}

/** The full cycle over HTTP and the bare one in turn. */
async function fullAndBare(rig: Rig, service: BenchService) {
  const target = targetOf(service);
  rig.say('bare SQL cycle: how many connections serve it best');
  const { connections, run } = await bestBare(rig, service);
  const cycles: Measured[] = [];
  const bare: number[] = [];
  for (let round = 1; round <= rig.scale.rounds; round += 1) {
    rig.say(`full cycle, round ${round}`);
    cycles.push(await measure(rig, { services: [service], loads: [fullCycle(target)] }));
    bare.push(rateOf(await run(connections, BATCH), 'acked'));
  }
  return { cycles, bare, connections, reference: rateOf(await run(connections, 500), 'acked') };
}

function pickUpRows(pickUp: Measured): Row[] {
  const [p50, p99] = [quantileOf(pickUp, 'pick-up', 0.5), quantileOf(pickUp, 'pick-up', 0.99)];
  const at = `${PICK_UP.rate} jobs/s, ${PICK_UP.workers} parked workers`;
  return [
    row(`pick-up latency p50 at ${at}`, p50, 'ms', atMost(10, p50, 'ms')),
    row(`pick-up latency p99 at ${at}`, p99, 'ms', atMost(50, p99, 'ms')),
    row('from before the enqueue, p50', quantileOf(pickUp, 'delivery', 0.5), 'ms'),
    row('from before the enqueue, p99', quantileOf(pickUp, 'delivery', 0.99), 'ms'),
    row(
      'jobs picked up',
      rateOf(pickUp, 'leased'),
      'jobs/s',
      atLeast(PICK_UP.rate * 0.95, rateOf(pickUp, 'leased'), 'jobs/s'),
    ),
  ];
}

/** What a job costs in the full cycle over HTTP. */
export function costRows(cycles: readonly Measured[]): Row[] {
  const perJob = (of: (each: Measured) => number): number[] => cycles.map((each) => of(each) / each.counts['acked']!);
  const rows = [
    medianRow(
      'database calls per job',
      'calls',
      perJob(({ databaseCalls }) => databaseCalls),
    ),
    medianRow(
      'WAL per job',
      'bytes',
      perJob(({ walBytes }) => walBytes),
    ),
  ];
  if (!canMeasureCpu) return rows;
  for (const part of ['service', 'postgres', 'generators'] as const) {
    const micros = perJob(({ cpu }) => cpu[part]);
    const share = median(
      cycles.map(({ cpu }) => (100 * cpu[part]) / (cpu.service + cpu.postgres + cpu.generators)),
    ).toFixed(0);
    rows.push(medianRow(`processor time per job, ${part} (${share} % of all)`, 'µs', micros));
  }
  return rows;
}
