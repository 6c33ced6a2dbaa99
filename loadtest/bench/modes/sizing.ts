import { residentBytes } from '../cpu.js';
import { measure, type Measured } from '../measure.js';
import { rateOf } from '../merge.js';
import type { Load, Target } from '../messages.js';
import { atLeast, row, type Row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { query } from '../sql.js';
import { BATCH, fullCycle, targetOf } from './table.js';

const MEBIBYTE = 2 ** 20;
/** Until what is called a few hundred times a second runs as fast as it will. */
const WARM_SECONDS = 30;
/** Less than offered by more than this is not the rate that was to be measured. */
const SHARE = 0.95;

interface Step {
  readonly rate: number;
  readonly name: string;
  readonly load: (target: Target, queue: string) => Load;
}

const single = (rate: number, clients: number): Step => ({
  rate,
  name: `${rate} jobs/s, single calls`,
  load: (target, queue) => ({ kind: 'single-cycle', target, queue, clients, rate }),
});

const batches = (rate: number, batch: number): Step => ({
  rate,
  name: `${rate} jobs/s, batches of ${batch}`,
  load: (target, queue) => fullCycle(target, { queues: [queue], batch, rate }),
});

const STEPS: readonly Step[] = [single(100, 20), single(1_000, 100), batches(1_000, 10), batches(10_000, BATCH)];

/** What jobs cost at the rates for which an installation is sized: processors, memory, log, and room on the disk. */
export async function sizing(rig: Rig): Promise<Table> {
  const rows: Row[] = [];
  for (const { rate, name, load } of STEPS) {
    rig.say(name);
    const service = await rig.service();
    const queue = 'sized';
    await service.queue(queue);
    const before = await roomOf(service.url);
    const measured = await measure(rig, {
      services: [service],
      loads: [load(targetOf(service), queue)],
      warmSeconds: rig.scale.quick ? rig.scale.warmSeconds : WARM_SECONDS,
    });
    const memory = await residentBytes(service.pid);
    const room = await roomOf(service.url);
    await rig.stop(service);
    rows.push(
      ...rowsOf(name, rate, measured),
      row(`${name}: memory of the service`, memory / MEBIBYTE, 'MiB'),
      row(
        `${name}: room that a finished job keeps until it is pruned`,
        (room.bytes - before.bytes) / room.finished,
        'bytes',
      ),
    );
  }
  return {
    mode: 'sizing',
    title: 'enqueue, lease and ack of 256-byte jobs at steady rates, by one service',
    rows,
    notes: ['each job is enqueued once, leased once and acked; what is kept is the body, its attempt and its indexes'],
  };
}

function rowsOf(name: string, rate: number, measured: Measured): Row[] {
  const { cpu, seconds, walBytes, databaseCalls, latencies } = measured;
  const done = rateOf(measured, 'acked');
  const millicores = (micros: number): number => micros / seconds / 1_000;
  const enqueue = (latencies['enqueue'] ?? latencies['enqueue batch'])?.quantile(0.99) ?? Number.NaN;
  return [
    row(`${name}: done`, done, 'jobs/s', atLeast(rate * SHARE, done, 'jobs/s')),
    row(`${name}: processor time of the service`, millicores(cpu.service), 'millicores'),
    row(`${name}: processor time of Postgres`, millicores(cpu.postgres), 'millicores'),
    row(`${name}: write-ahead log`, walBytes / seconds / MEBIBYTE, 'MiB/s'),
    row(`${name}: database calls`, databaseCalls / seconds, 'calls/s'),
    row(`${name}: enqueue p99`, enqueue, 'ms'),
  ];
}

async function roomOf(url: string): Promise<{ readonly bytes: number; readonly finished: number }> {
  const [found] = await query<{ bytes: number; finished: number }>(url, ROOM);
  return found!;
}

const ROOM = `select pg_database_size(current_database())::float8 as bytes,
  (select count(*) from stint.finished)::float8 as finished`;
