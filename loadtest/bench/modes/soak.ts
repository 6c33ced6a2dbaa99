import { residentBytes } from '../cpu.js';
import { measure, stopAll, watch } from '../measure.js';
import { rateOf } from '../merge.js';
import { row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { mean } from '../statistics.js';
import { fullCycle, targetOf } from './table.js';

const SECONDS = 600;
const STRETCHES = 40;
const SHARE = 0.6;
const GROWTH = 1.1;
const MEBIBYTE = 2 ** 20;

/** Whether memory stays what it is under steady load. */
export async function soak(rig: Rig): Promise<Table> {
  const service = await rig.service();
  rig.say('how much it can take');
  const most = rateOf(await measure(rig, { services: [service], loads: [fullCycle(targetOf(service))] }), 'acked');
  const generator = rig.generator();
  const rate = SHARE * most;
  await generator.start({ ...fullCycle(targetOf(service)), rate });
  const seconds = rig.scale.long(SECONDS) / STRETCHES;
  const resident: number[] = [];
  const heap: number[] = [];
  const rates: number[] = [];
  for (let stretch = 1; stretch <= STRETCHES; stretch += 1) {
    rates.push(rateOf(await watch(rig, { services: [service], generators: [generator], seconds }), 'acked'));
    resident.push((await residentBytes(service.pid)) / MEBIBYTE);
    heap.push((await service.metric('stint_nodejs_heap_space_size_used_bytes', 'space="old"')) / MEBIBYTE);
    rig.say(`${Math.round(resident.at(-1)!)} MiB resident, old space ${Math.round(heap.at(-1)!)} MiB`);
  }
  await stopAll(rig, [generator]);
  return {
    mode: 'soak',
    title: `memory of the service over ${rig.scale.long(SECONDS)} s at ${Math.round(100 * SHARE)} % of what it can take`,
    rows: [
      row('full cycle offered', rate, 'jobs/s'),
      row('full cycle done', mean(rates), 'jobs/s'),
      growthRow('resident memory', resident),
      growthRow('old space of the heap in use', heap),
      row('resident memory at the end', resident.at(-1)!, 'MiB'),
    ],
    series: { 'resident MiB': resident, 'old space MiB': heap },
    notes: [`a value of a series each ${seconds} s`],
  };
}

/** Flat: the last third is hardly above the middle one. */
function growthRow(name: string, series: readonly number[]): Row {
  const third = Math.floor(series.length / 3);
  const growth = mean(series.slice(-third)) / mean(series.slice(third, 2 * third));
  return row(`${name}, last third to middle third`, growth, 'times', {
    promise: `≤ ${GROWTH} times`,
    held: growth <= GROWTH,
  });
}
