import { startBareRoute } from '../bare-route.js';
import { canMeasureCpu } from '../cpu.js';
import { quantileOf, rateOf } from '../merge.js';
import type { EnqueueLoad, Target } from '../messages.js';
import { medianRow, ratioRow, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import { median } from '../statistics.js';
import { SINGLE_CLIENTS, targetOf } from './table.js';

/** What an enqueue costs over a route that only validates. */
export async function route(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const bare = await startBareRoute();
  try {
    const load = (target: Target): EnqueueLoad => ({
      kind: 'enqueue',
      target,
      clients: SINGLE_CLIENTS,
      batch: 1,
      queue: 'route',
    });
    const { a, b } = await interleaved(
      rig,
      { name: 'the service', services: [service], loads: [load(targetOf(service))] },
      { name: 'the bare route', services: [], pids: [bare.pid], loads: [load(bare.target)] },
    );
    const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'enqueued'));
    const p99 = (all: typeof a): number => median(all.map((each) => quantileOf(each, 'enqueue', 0.99)));
    const micros = (all: typeof a, part: 'service' | 'postgres' | 'generators'): number =>
      median(all.map(({ cpu, counts }) => cpu[part] / counts['enqueued']!));
    return {
      mode: 'route',
      title: `single enqueues by ${SINGLE_CLIENTS} clients, beside a Fastify route that validates the same body and answers at once`,
      rows: [
        medianRow('enqueue, the service', 'jobs/s', rates(a)),
        medianRow('the bare route', 'calls/s', rates(b)),
        ratioRow('the service to the bare route', { of: rates(a), to: rates(b) }, 60),
        row('p99 of an enqueue, the service', p99(a), 'ms'),
        row('p99 of a call, the bare route', p99(b), 'ms'),
        ...(canMeasureCpu
          ? [
              row('processor time per enqueue, service', micros(a, 'service'), 'µs'),
              row('processor time per enqueue, postgres', micros(a, 'postgres'), 'µs'),
              row('processor time per enqueue, generator', micros(a, 'generators'), 'µs'),
              row('processor time per call, the bare route', micros(b, 'service'), 'µs'),
              row('processor time per call of it, generator', micros(b, 'generators'), 'µs'),
            ]
          : []),
      ],
      notes: [],
    };
  } finally {
    await bare.stop();
  }
}
