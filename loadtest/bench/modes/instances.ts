import { noQuotaBecause } from '../cpu-quota.js';
import type { Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import { atLeast, medianRow, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { interleaved } from '../rounds.js';
import { median } from '../statistics.js';
import { BATCH, fullCycle, targetOf } from './table.js';

/** Little enough that Postgres and the load have the processor time that two of them call for, on two cores. */
const MILLICORES = 300;
const TIMES = 1.5;
/** A process with so little needs its time to compile what is hot. */
const WARM_SECONDS = 30;

/** What a second instance brings where the first one's processor time is the limit. */
export async function instances(rig: Rig): Promise<Table> {
  const title = `two instances on one database, each with a quota of ${MILLICORES} millicores; full cycle in batches of ${BATCH}`;
  const because = await noQuotaBecause();
  if (because !== undefined) {
    return { mode: 'instances', title, rows: [], notes: [`skipped: no processor quota can be set here (${because})`] };
  }
  const first = await rig.service({ millicores: MILLICORES });
  const second = await rig.service({ millicores: MILLICORES, url: first.url, like: first });
  const work = (name: string, services: readonly (typeof first)[]) => ({
    name,
    services,
    loads: [fullCycle(targetOf(...services), { producers: 16, workers: 16, depth: 8_000 })],
    warmSeconds: rig.scale.long(WARM_SECONDS),
  });
  const { a, b } = await interleaved(rig, work('two instances', [first, second]), work('one instance', [first]));
  const rates = (all: typeof a): number[] => all.map((each) => rateOf(each, 'acked'));
  const times = rates(a).map((rate, index) => rate / rates(b)[index]!);
  return {
    mode: 'instances',
    title,
    rows: [
      medianRow('full cycle, two instances', 'jobs/s', rates(a)),
      medianRow('full cycle, one instance', 'jobs/s', rates(b)),
      medianRow('two instances to one', 'times', times, atLeast(TIMES, median(times), 'times')),
      ...usedRows('two instances', a),
      ...usedRows('one instance', b),
    ],
    notes: [],
  };
}

/** What was the limit: the processor time that each part used. */
function usedRows(name: string, measured: readonly Measured[]): Row[] {
  return (['service', 'postgres', 'generators'] as const).map((part) =>
    medianRow(
      `processor time used, ${name}: ${part}`,
      'millicores',
      measured.map(({ cpu, seconds }) => cpu[part] / seconds / 1_000),
    ),
  );
}
