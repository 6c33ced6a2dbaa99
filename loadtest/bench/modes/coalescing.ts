import { rateOf } from '../merge.js';
import type { SingleCycleLoad } from '../messages.js';
import { atLeast, medianRow, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import type { BenchService } from '../service.js';
import { median } from '../statistics.js';
import { SINGLE_CLIENTS, targetOf } from './table.js';

const TIMES = 8;

/** What it brings to write many callers' jobs by one statement. */
export async function coalescing(rig: Rig): Promise<Table> {
  const on = await rig.service();
  const off = await rig.service({ env: { STINT_TEST_COALESCING: 'off' } });
  const load = (service: BenchService): SingleCycleLoad => ({
    kind: 'single-cycle',
    target: targetOf(service),
    clients: SINGLE_CLIENTS,
    queue: 'singles',
  });
  const { a, b } = await interleaved(
    rig,
    { name: 'with coalescing', services: [on], loads: [load(on)] },
    { name: 'without', services: [off], loads: [load(off)] },
  );
  const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'acked'));
  const times = rates(a).map((rate, index) => rate / rates(b)[index]!);
  const calls = (all: typeof a): number[] => all.map((each) => each.databaseCalls / each.counts['acked']!);
  return {
    mode: 'coalescing',
    title: `${SINGLE_CLIENTS} clients; each enqueues one job, leases one, acks one`,
    rows: [
      medianRow('full cycle, with coalescing', 'jobs/s', rates(a)),
      medianRow('full cycle, without', 'jobs/s', rates(b)),
      medianRow('with coalescing to without', 'times', times, atLeast(TIMES, median(times), 'times')),
      row('database calls per job, with coalescing', median(calls(a)), 'calls'),
      row('database calls per job, without', median(calls(b)), 'calls'),
    ],
    notes: [],
  };
}
