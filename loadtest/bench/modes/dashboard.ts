import { fill, type Place } from '../fill.js';
import { measure, type Measured, type Work } from '../measure.js';
import { quantileOf, rateOf } from '../merge.js';
import type { Load } from '../messages.js';
import { atMost, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { targetOf } from './table.js';

const STOCK: readonly (readonly [Place, number])[] = [
  ['ready', 0.3],
  ['scheduled', 0.1],
  ['finished', 0.5],
  ['dead', 0.1],
];
const PATHS = [
  '/v1/queues/shown/stats',
  '/v1/queues',
  '/v1/queues/shown/jobs?limit=100',
  '/v1/queues/shown/jobs?state=completed&limit=1000',
  '/v1/queues/shown/jobs?state=ready&kind=bench&limit=100',
  '/v1/queues/shown/jobs?state=dead&kind=no-such-kind&limit=100',
  '/v1/queues/shown/dead?limit=1000',
];
const DAY_SECONDS = 86_400;
const TABS = 20;
const SCRAPERS = 3;
const SECONDS = 60;
const ANSWER_MS = 2_000;
const SLOWER = 2;

/** Whether people who look slow what is looked at, and how long they wait. */
export async function dashboard(rig: Rig): Promise<Table> {
  const service = await rig.service();
  await service.queue('shown');
  for (const [place, share] of STOCK) {
    const rows = Math.round(share * rig.scale.million);
    rig.say(`filling ${place} with ${rows} jobs`);
    await fill(service.url, { queue: 'shown', place, rows, dueAt: Date.now() / 1_000 + DAY_SECONDS });
  }
  const target = targetOf(service);
  const hot: Load = { kind: 'single-cycle', target, clients: 20, queue: 'hot', rate: 200 };
  const lookers: Load[] = [
    { kind: 'read', target, clients: TABS, paths: PATHS, pauseMs: 1_000 },
    { kind: 'read', target, clients: SCRAPERS, paths: ['/metrics'], pauseMs: rig.scale.quick ? 500 : 5_000 },
  ];
  const work: Work = { services: [service], loads: [hot], seconds: rig.scale.long(SECONDS) };
  const alone = await measure(rig, work);
  rig.say(`${TABS} clients look, ${SCRAPERS} scrape`);
  const looked = await measure(rig, { ...work, loads: [hot, ...lookers] });
  const lease = (measured: Measured): number => quantileOf(measured, 'lease', 0.99);
  const slowest = quantileOf(looked, 'read', 1);
  return {
    mode: 'dashboard',
    title: `a queue of ${rig.scale.million} jobs looked at by ${TABS} clients each second and ${SCRAPERS} scrapers each 5 s`,
    rows: [
      row('lease p99, nobody looks', lease(alone), 'ms'),
      row('lease p99, all look', lease(looked), 'ms', atMost(Math.max(50, SLOWER * lease(alone)), lease(looked), 'ms')),
      row('reads', rateOf(looked, 'reads'), 'calls/s'),
      row('read p50', quantileOf(looked, 'read', 0.5), 'ms'),
      row('slowest read', slowest, 'ms', atMost(ANSWER_MS, slowest, 'ms')),
      row(
        'slowest scrape',
        quantileOf(looked, 'scrape', 1),
        'ms',
        atMost(ANSWER_MS, quantileOf(looked, 'scrape', 1), 'ms'),
      ),
      row(
        'reads refused or failed',
        looked.counts['errors'] ?? 0,
        'calls',
        atMost(0, looked.counts['errors'] ?? 0, 'calls'),
      ),
    ],
    notes: [
      'reads are of counts, of the list of queues, and of lists of jobs, page after page to their ends, with filters that find all or nothing',
    ],
  };
}
