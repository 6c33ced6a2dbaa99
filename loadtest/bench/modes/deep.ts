import { setTimeout as pause } from 'node:timers/promises';
import { fill, type Place } from '../fill.js';
import { measure } from '../measure.js';
import { quantileOf, rateOf } from '../merge.js';
import type { SingleCycleLoad } from '../messages.js';
import { atLeast, atMost, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { scrapedQuantile } from '../scrape.js';
import type { BenchService } from '../service.js';
import { query } from '../sql.js';
import { targetOf } from './table.js';

const RATE = 100;
const SECONDS = 60;
/** From a second before they are due. */
const BURST_SECONDS = 15;
const BOUND_MS = 50;
const FAR_SECONDS = 86_400;
/** Longer than it takes to fill in what is due then. */
const SOON_SECONDS = 15;
const PROMOTIONS = { name: 'stint_task_seconds', label: 'task="promote-due"' };

/** Whether many rows that are of no interest now slow those that are. */
export async function deep(rig: Rig): Promise<Table> {
  const service = await rig.service();
  const { million } = rig.scale;
  await service.queue('deep');
  for (const place of ['scheduled', 'finished', 'dead'] satisfies Place[]) {
    rig.say(`filling ${place} with ${million} jobs`);
    await fill(service.url, { queue: 'deep', place, rows: million, dueAt: Date.now() / 1_000 + FAR_SECONDS });
  }
  const before = await service.metrics();
  const quiet = await measure(rig, {
    services: [service],
    loads: [trickle(service)],
    seconds: rig.scale.long(SECONDS),
  });
  const promoted = scrapedQuantile({ before, after: await service.metrics() }, PROMOTIONS, 0.99) * 1_000;
  const due = await manyDue(rig, service);
  const lease = (measured: typeof quiet): number => quantileOf(measured, 'lease', 0.99);
  return {
    mode: 'deep',
    title: `${RATE} jobs/s beside ${million} scheduled, ${million} finished and ${million} dead jobs in one queue`,
    rows: [
      row('leased', rateOf(quiet, 'leased'), 'jobs/s', atLeast(RATE * 0.95, rateOf(quiet, 'leased'), 'jobs/s')),
      row('lease p50', quantileOf(quiet, 'lease', 0.5), 'ms'),
      row('lease p99', lease(quiet), 'ms', atMost(BOUND_MS, lease(quiet), 'ms')),
      row('promotion p99', promoted, 'ms', atMost(BOUND_MS, promoted, 'ms')),
      row(
        `lease p99 while ${due.rows} jobs come due at once`,
        lease(due.measured),
        'ms',
        atMost(BOUND_MS, lease(due.measured), 'ms'),
      ),
      row('until all of those are ready', due.seconds, 's'),
    ],
    notes: ['the edge of a bucket of the histogram stands for a promotion’s time'],
  };
}

function trickle(service: BenchService, queue = 'deep'): SingleCycleLoad {
  return { kind: 'single-cycle', target: targetOf(service), clients: 20, queue, rate: RATE };
}

/** A tenth of the stock comes due at one instant, beside the same trickle in another queue. */
async function manyDue(rig: Rig, service: BenchService) {
  const rows = rig.scale.million / 10;
  await service.queue('burst');
  rig.say(`scheduling ${rows} jobs for one instant`);
  const dueAt = Date.now() / 1_000 + SOON_SECONDS;
  await fill(service.url, { queue: 'burst', place: 'scheduled', rows, dueAt });
  const ready = allReady(service);
  const measured = await measure(rig, {
    services: [service],
    loads: [trickle(service, 'trickle')],
    warmSeconds: Math.max(1, dueAt - Date.now() / 1_000 - 1),
    seconds: BURST_SECONDS,
  });
  return { rows, measured, seconds: (await ready) - dueAt };
}

/** When the last of them has left `scheduled`, in seconds since 1970. */
async function allReady({ url }: BenchService): Promise<number> {
  for (;;) {
    const [left] = await query<{ rows: number }>(
      url,
      `select count(*)::int as rows from (select from scheduled where queue_id = (select id from queue where name = 'burst') limit 1) s`,
    );
    if (left!.rows === 0) return Date.now() / 1_000;
    await pause(100);
  }
}
