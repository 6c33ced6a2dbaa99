import { setTimeout as pause } from 'node:timers/promises';
import { holdHorizon } from '../held-horizon.js';
import { stopAll, watch, type Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import type { CycleLoad } from '../messages.js';
import { atLeast, atMost, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import type { BenchService } from '../service.js';
import { mean, trend } from '../statistics.js';
import { fullCycle, targetOf } from './table.js';

const BEFORE_SECONDS = 60;
const UNDER_SECONDS = 300;
const BUCKETS = 20;
/** Of the buckets under the transaction, those after the first minute. */
const SETTLED = BUCKETS * (60 / UNDER_SECONDS);
const OFFERED = 2_000;
/** Half a second of what is offered: what a single slow commit may leave behind. */
const NO_BACKLOG = OFFERED / 2;

/** What an open transaction of somebody else does to the rate, and to the backlog at a rate well below it. */
export async function horizon(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const full = await underHeldHorizon(rig, service, fullCycle(targetOf(service)));
  const before = rateOf(full.before, 'acked');
  const rates = full.under.map((each) => rateOf(each, 'acked'));
  const settled = rates.slice(SETTLED);
  const line = trend(settled);
  const perMinute = 60 / (rig.scale.long(UNDER_SECONDS) / BUCKETS);
  const percent = (value: number): number => (100 * value * perMinute) / mean(settled);
  const paced = await underHeldHorizon(rig, service, {
    ...fullCycle(targetOf(service), { queues: ['paced'], batch: 20 }),
    rate: OFFERED,
  });
  const waiting = paced.under.map(({ peaks }) => peaks['waiting'] ?? 0);
  const ratio = (100 * mean(rates)) / before;
  return {
    mode: 'horizon',
    title: `full cycle under another session's open REPEATABLE READ transaction for ${rig.scale.long(UNDER_SECONDS)} s`,
    rows: [
      row('full cycle before it', before, 'jobs/s'),
      row('full cycle under it, mean', mean(rates), 'jobs/s'),
      row('under it to before', ratio, '%', atLeast(60, ratio, '%')),
      row('trend after its first minute', percent(line.slope), '% a minute', {
        promise: 'not downward by more than twice its standard error',
        held: line.slope + 2 * line.error >= 0,
      }),
      row('standard error of the trend', percent(line.error), '% a minute'),
      row(
        `most waiting at ${OFFERED} jobs/s offered`,
        Math.max(...waiting),
        'jobs',
        atMost(NO_BACKLOG, Math.max(...waiting), 'jobs'),
      ),
      row('leased at that', mean(paced.under.map((each) => rateOf(each, 'leased'))), 'jobs/s'),
    ],
    series: { 'jobs/s': rates, 'most waiting': waiting },
    notes: [`a value of a series each ${rig.scale.long(UNDER_SECONDS) / BUCKETS} s`],
  };
}

async function underHeldHorizon(rig: Rig, service: BenchService, load: CycleLoad) {
  const generator = rig.generator();
  const look = (seconds: number): Promise<Measured> =>
    watch(rig, { services: [service], generators: [generator], seconds });
  await generator.start(load);
  await pause(rig.scale.warmSeconds * 1_000);
  rig.say('before the transaction');
  const before = await look(rig.scale.long(BEFORE_SECONDS));
  const held = await holdHorizon(service.url);
  const under: Measured[] = [];
  try {
    for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
      under.push(await look(rig.scale.long(UNDER_SECONDS) / BUCKETS));
      rig.say(`under it: ${Math.round(rateOf(under.at(-1)!, 'acked'))} jobs/s`);
    }
  } finally {
    await held.letGo();
  }
  await stopAll(rig, [generator]);
  return { before, under };
}
