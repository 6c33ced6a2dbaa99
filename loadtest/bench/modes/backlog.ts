import { fill } from '../fill.js';
import { rateOf } from '../merge.js';
import { medianRow, ratioRow, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import { BATCH, fullCycle, targetOf } from './table.js';

const SMALL = 1_000;
/** Few enough that the small backlog never runs out. */
const STEADY = { producers: 6, workers: 4, depth: 4 * BATCH };

/** Whether leases get slower when much waits. Producers replace what was acked, so that the backlog stays what it is. */
export async function backlog(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const large = rig.scale.million;
  for (const [queue, rows] of [
    ['large', large],
    ['small', SMALL],
  ] as const) {
    rig.say(`filling ${queue} with ${rows} jobs`);
    await service.queue(queue);
    await fill(service.url, { queue, place: 'ready', rows });
  }
  const work = (queue: string) => ({
    name: queue,
    services: [service],
    loads: [fullCycle(targetOf(service), { queues: [queue], ...STEADY })],
  });
  const { a, b } = await interleaved(rig, work('large'), work('small'));
  const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'leased'));
  return {
    mode: 'backlog',
    title: `lease with ack in batches of ${BATCH}, from a backlog that is kept at its level`,
    rows: [
      medianRow(`lease from ${large} waiting jobs`, 'jobs/s', rates(a)),
      medianRow(`lease from ${SMALL} waiting jobs`, 'jobs/s', rates(b)),
      ratioRow('large backlog to small', { of: rates(a), to: rates(b) }, 90),
    ],
    notes: [],
  };
}
