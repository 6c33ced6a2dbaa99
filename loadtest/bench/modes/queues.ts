import { canMeasureCpu } from '../cpu.js';
import type { Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import { medianRow, ratioRow, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import { median } from '../statistics.js';
import { BATCH, fullCycle, targetOf } from './table.js';

const QUEUES = 1_000;
const CLIENTS = { producers: 10, workers: 20 };

/**
 * Whether many queues cost more than one: each batch is for the next queue, a worker leases from 100 of them. And, as the worst that
 * can be asked, with batches spread over 100 queues each, so that every statement touches as many queues as jobs.
 */
export async function queues(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const many = Array.from({ length: QUEUES }, (_, n) => `many-${n}`);
  rig.say(`making ${QUEUES} queues`);
  for (const name of many) await service.queue(name);
  const work = (name: string, names: readonly string[], spread = false) => ({
    name,
    services: [service],
    loads: [fullCycle(targetOf(service), { queues: names, spread, depth: 8_000, ...CLIENTS })],
  });
  const { a, b } = await interleaved(rig, work('many queues', many), work('one queue', ['one']));
  const worst = await interleaved(rig, work('batches over 100 queues', many, true), work('one queue', ['one']));
  const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'acked'));
  const perCall = (all: typeof a): number =>
    median(all.map((each) => each.counts['leased']! / (each.latencies['lease with acks']?.count ?? 0)));
  return {
    mode: 'queues',
    title: `full cycle in batches of ${BATCH}: ${CLIENTS.producers} producers, ${CLIENTS.workers} workers of up to 100 queues each`,
    rows: [
      medianRow(`full cycle over ${QUEUES} queues`, 'jobs/s', rates(a)),
      medianRow('full cycle over one queue', 'jobs/s', rates(b)),
      ratioRow('many queues to one', { of: rates(a), to: rates(b) }, 80),
      row(`jobs per lease, ${QUEUES} queues`, perCall(a), 'jobs'),
      row('jobs per lease, one queue', perCall(b), 'jobs'),
      medianRow(`full cycle over ${QUEUES} queues, each batch spread over 100`, 'jobs/s', rates(worst.a)),
      ratioRow('many queues to one, spread', { of: rates(worst.a), to: rates(worst.b) }),
      ...(canMeasureCpu
        ? [
            ...processorTimes(`${QUEUES} queues`, a),
            ...processorTimes('one queue', b),
            ...processorTimes('spread', worst.a),
          ]
        : []),
    ],
    notes: [],
  };
}

function processorTimes(of: string, all: readonly Measured[]) {
  return (['service', 'postgres', 'generators'] as const).map((part) =>
    row(
      `processor time per job, ${of}: ${part}`,
      median(all.map(({ cpu, counts }) => cpu[part] / counts['acked']!)),
      'µs',
    ),
  );
}
