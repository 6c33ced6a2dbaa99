import { setTimeout as pause } from 'node:timers/promises';
import { fill } from '../fill.js';
import { measure } from '../measure.js';
import { quantileOf, rateOf } from '../merge.js';
import type { Load } from '../messages.js';
import { atMost, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { query, withClient } from '../sql.js';
import { fullCycle, targetOf } from './table.js';

const POLLS = 500;
const RATE = 1_000;
const SECONDS = 60;
const BOUND_MS = 100;
const BACK_MS = 10_000;

/** Long polls, ordinary load and somebody's slow report at once: whether acks and heartbeats go on, and connections come back. */
export async function stress(rig: Rig): Promise<Table> {
  const service = await rig.service();
  await service.queue('reported');
  rig.say('filling what the report reads');
  await fill(service.url, { queue: 'reported', place: 'finished', rows: rig.scale.million / 2 });
  const target = targetOf(service);
  const loads: Load[] = [
    { kind: 'single-cycle', target, clients: 20, queue: 'beaten', heartbeat: true, rate: 100 },
    { ...fullCycle(target, { batch: 20 }), rate: RATE },
    { kind: 'park', target, clients: POLLS, queues: ['parked-1', 'parked-2'], waitSeconds: 20 },
  ];
  const before = await sessions(service.url);
  const over = new AbortController();
  const reports = report(service.url, over.signal);
  const measured = await measure(rig, { services: [service], loads, seconds: rig.scale.long(SECONDS) });
  const during = await sessions(service.url);
  over.abort();
  const made = await reports;
  await rig.endGenerators();
  const after = await settled(service.url);
  const p99 = (name: string): number => quantileOf(measured, name, 0.99);
  return {
    mode: 'stress',
    title: `${POLLS} long polls, ${RATE} jobs/s in batches, 100 single cycles/s with heartbeats, and one slow report after the other`,
    rows: [
      row('ack p99', p99('ack'), 'ms', atMost(BOUND_MS, p99('ack'), 'ms')),
      row('heartbeat p99', p99('heartbeat'), 'ms', atMost(BOUND_MS, p99('heartbeat'), 'ms')),
      row('full cycle', rateOf(measured, 'acked'), 'jobs/s'),
      row(
        'calls refused or failed',
        measured.counts['errors'] ?? 0,
        'calls',
        atMost(0, measured.counts['errors'] ?? 0, 'calls'),
      ),
      row('reports made', made, 'reports'),
      row('sessions of the service before', before, 'sessions'),
      row('sessions of the service under it', during, 'sessions'),
      row('sessions busy after it', after, 'sessions', atMost(0, after, 'sessions')),
    ],
    notes: [],
  };
}

/** Sorts half a million rows by what no index serves, again and again. Answers how often. */
async function report(url: string, over: AbortSignal): Promise<number> {
  let made = 0;
  await withClient(url, async (client) => {
    await client.query('set max_parallel_workers_per_gather = 0');
    for (; !over.aborted; made += 1) {
      await client.query(`select md5(f.job_id::text) as key, count(*) from finished f, generate_series(1, 3)
        group by 1 order by 1 desc limit 10`);
    }
  });
  return made;
}

const OURS = `application_name like 'stint %' and datname = current_database()`;

async function sessions(url: string): Promise<number> {
  const [row] = await query<{ n: number }>(url, `select count(*)::int as n from pg_stat_activity where ${OURS}`);
  return row!.n;
}

/** Sessions that are in the middle of something once the load is over; a moment is given for that. */
async function settled(url: string): Promise<number> {
  for (const deadline = performance.now() + BACK_MS; ; await pause(200)) {
    const [row] = await query<{ n: number }>(
      url,
      `select count(*)::int as n from pg_stat_activity where ${OURS} and state <> 'idle'`,
    );
    if (row!.n === 0 || performance.now() > deadline) return row!.n;
  }
}
