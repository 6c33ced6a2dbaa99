import { measure } from '../measure.js';
import { atMost, row, type Table } from '../report.js';
import type { Rig } from '../rig.js';
import { targetOf } from './table.js';

const WORKERS = 1_000;
const QUEUES = ['idle-1', 'idle-2', 'idle-3', 'idle-4'];
const SECONDS = 30;

/** What parked workers cost the database. */
export async function idle(rig: Rig): Promise<Table> {
  const service = await rig.service();
  for (const queue of QUEUES) await service.queue(queue);
  const { databaseCalls, counts, cpu, seconds } = await measure(rig, {
    services: [service],
    loads: [{ kind: 'park', target: targetOf(service), clients: WORKERS, queues: QUEUES, waitSeconds: 20 }],
    warmSeconds: rig.scale.warmSeconds + 2,
    seconds: rig.scale.long(SECONDS),
  });
  const rate = databaseCalls / seconds;
  return {
    mode: 'idle',
    title: `${WORKERS} workers parked for 20 s each on ${QUEUES.length} empty queues`,
    rows: [
      row('database calls', rate, 'calls/s', atMost(5, rate, 'calls/s')),
      row('long polls that began anew', (counts['polls'] ?? 0) / seconds, 'calls/s'),
      row('processor time, service', cpu.service / seconds / 1_000, 'millicores'),
      row('processor time, postgres', cpu.postgres / seconds / 1_000, 'millicores'),
    ],
    notes: [],
  };
}
