import { Counter, type Registry } from 'prom-client';
import { Tally } from './tally.js';

/** From what a worker that waits is handed at once to a backlog of a day. */
const PICK_UP_SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400,
];

const EVENTS = [
  'enqueued',
  'deduplicated',
  'leased',
  'redelivered',
  'heartbeaten',
  'acked',
  'nacked',
  'released',
  'expired',
  'dead',
  'cancelled',
  'promoted',
  'purged',
] as const;

export type JobEvent = (typeof EVENTS)[number];

/** Of what becomes of jobs. */
export function jobInstruments(registers: Registry[]) {
  const returned = new Counter({
    name: 'stint_deliveries_returned_total',
    help: 'Leased jobs put back since their caller was gone before the answer',
    registers,
  });
  const events = new Counter({
    name: 'stint_jobs_total',
    help: 'What became of jobs',
    labelNames: ['event'] as const,
    registers,
  });
  // A rate is seen only from a value to the next: without its 0 the first dead job would not count as one.
  for (const event of EVENTS) events.inc({ event }, 0);
  const pickUp = new Tally({
    name: 'stint_pick_up_seconds',
    help: 'Time from when a job could first be leased to its first lease',
    buckets: PICK_UP_SECONDS,
    registers,
  });
  return {
    returnedUndelivered: (count: number): void => returned.inc(count),
    jobs: (event: JobEvent, count: number): void => events.inc({ event }, count),
    /** Leases of one claim. `waits`: of those that are a job's first, for how long it had been ready, in seconds. */
    claimed: (leases: number, waits: readonly number[]): void => {
      events.inc({ event: 'leased' }, leases);
      events.inc({ event: 'redelivered' }, leases - waits.length);
      for (const wait of waits) pickUp.observe(wait);
    },
  };
}
