import { Histogram } from '../histogram.js';
import { stopAll, watch, type Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import { atMost, row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { query } from '../sql.js';
import { mean } from '../statistics.js';
import { fullCycle, targetOf } from './table.js';

const RATE = 1_000;
/** Single cycles a second, whose leases find their job at once. */
const PROBES = 20;
const RETAIN_SECONDS = 60;
/** A finished job's row is kept for ten minutes at least, its body for as long as is asked for. */
const SECONDS = 900;
const STRETCHES = 60;
const FINISHED_KEPT_SECONDS = 600;
const GROWTH = 1.1;
const SLOWER = 2;

/** Whether pruning keeps up with what is finished, and what it does to leases. */
export async function retention(rig: Rig): Promise<Table> {
  const service = await rig.service();
  await service.queue('kept', { retainCompleted: `${RETAIN_SECONDS}s` });
  const target = targetOf(service);
  const generators = [rig.generator(0), rig.generator(1)];
  await generators[0]!.start({ ...fullCycle(target, { queues: ['kept'], batch: 20 }), rate: RATE });
  await generators[1]!.start({ kind: 'single-cycle', target, clients: 10, queue: 'probe', rate: PROBES });
  const seconds = rig.scale.long(SECONDS) / STRETCHES;
  const [bodies, finished, all]: [number[], number[], Measured[]] = [[], [], []];
  for (let stretch = 1; stretch <= STRETCHES; stretch += 1) {
    all.push(await watch(rig, { services: [service], generators, seconds }));
    const [rows] = await query<{ bodies: number; finished: number }>(
      service.url,
      'select (select count(*)::int from job) as bodies, (select count(*)::int from finished) as finished',
    );
    bodies.push(rows!.bodies);
    finished.push(rows!.finished);
    rig.say(`${rows!.bodies} bodies, ${rows!.finished} finished jobs`);
  }
  await stopAll(rig, generators);
  const at = (second: number): number => Math.round((second / SECONDS) * STRETCHES);
  const p99 = (from: number, to: number): number => {
    const leases = new Histogram();
    for (const { latencies } of all.slice(at(from), at(to))) leases.merge(latencies['lease']?.toBuckets() ?? []);
    return leases.quantile(0.99);
  };
  const [before, after] = [p99(0, RETAIN_SECONDS), p99(FINISHED_KEPT_SECONDS + RETAIN_SECONDS, SECONDS)];
  return {
    mode: 'retention',
    title: `${RATE} jobs/s, completed jobs retained for ${RETAIN_SECONDS} s`,
    rows: [
      row('full cycle', mean(all.map((each) => rateOf(each, 'acked'))), 'jobs/s'),
      ...growthRows(rig, {
        bodies: bodies.slice(at(2 * RETAIN_SECONDS)),
        finished: finished.slice(at(FINISHED_KEPT_SECONDS + RETAIN_SECONDS)),
      }),
      row('lease p99 before anything is pruned', before, 'ms'),
      row(
        'lease p99 while both are pruned',
        after,
        'ms',
        rig.scale.quick ? {} : atMost(Math.max(50, SLOWER * before), after, 'ms'),
      ),
    ],
    series: { bodies, 'finished jobs': finished },
    notes: [
      `a value of a series each ${seconds} s`,
      ...(rig.scale.quick ? ['too short for anything to be pruned: run it in full'] : []),
    ],
  };
}

/** From when on rows are pruned as they come: the last ones are hardly more than the first. */
function growthRows(rig: Rig, series: Readonly<Record<string, readonly number[]>>): Row[] {
  return Object.entries(series).map(([name, values]) => {
    const third = Math.max(1, Math.floor(values.length / 3));
    const growth = mean(values.slice(-third)) / mean(values.slice(0, third));
    const promised = rig.scale.quick ? {} : { promise: `≤ ${GROWTH} times`, held: growth <= GROWTH };
    return row(`${name} kept, last third to first third since they are pruned`, growth, 'times', promised);
  });
}
