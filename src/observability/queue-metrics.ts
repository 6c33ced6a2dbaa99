import type { Registry } from 'prom-client';
import { sampledCounter, sampledGauge, Validity } from './sampled.js';

const STATES = ['scheduled', 'ready', 'leased', 'dead'] as const;
const COUNTED = ['enqueued', 'completed', 'failed'] as const;
/** The name under which the queues that are not shown by theirs are summed; of no tenant, so that no queue is mistaken for it. */
const OTHER = { tenant: '', queue: 'other' };

export type StateCounts = Readonly<Record<(typeof STATES)[number], number>>;

export interface QueueSample extends Readonly<Record<(typeof COUNTED)[number], number>> {
  readonly tenant: string;
  readonly queue: string;
  readonly counts: StateCounts;
  /** Seconds; 0 when no job is ready. */
  readonly oldestReady: number;
}

/** What one look at all queues has found. */
export interface QueuesSample {
  /** Those with the most jobs or the most traffic: a bounded number. */
  readonly queues: readonly QueueSample[];
  /** The sum of all others. */
  readonly other: StateCounts;
  /** Seconds by which the schedule, and the scheduled job, that has been due for longest is late; 0 when none is due. */
  readonly scheduleLag: number;
  readonly dueJobLag: number;
}

/** Of what all queues hold: of the whole database, so that one instance at a time shows it. */
export function queueInstruments(registers: Registry[]) {
  const validity = new Validity();
  const names = ['tenant', 'queue'] as const;
  const depth = sampledGauge(validity, {
    name: 'stint_queue_jobs',
    help: 'Jobs of the deepest and busiest queues',
    labelNames: [...names, 'state'],
    registers,
  });
  const age = sampledGauge(validity, {
    name: 'stint_queue_oldest_ready_seconds',
    help: 'Age of the oldest ready job of a queue',
    labelNames: names,
    registers,
  });
  const events = sampledCounter(validity, {
    name: 'stint_queue_events_total',
    help: 'Jobs enqueued and completed, attempts failed, of the deepest and busiest queues',
    labelNames: [...names, 'event'],
    registers,
  });
  const lag = sampledGauge(validity, {
    name: 'stint_schedule_lag_seconds',
    help: 'By how much the schedule that has been due for longest is late',
    labelNames: [],
    registers,
  });
  const dueLag = sampledGauge(validity, {
    name: 'stint_due_job_lag_seconds',
    help: 'By how much the scheduled job that has been due for longest is late in becoming ready',
    labelNames: [],
    registers,
  });
  return {
    /** Replaces all of it, so that a queue which is not in the sample vanishes. Shown for `milliseconds`, unless it is told again. */
    queues: ({ queues, other, scheduleLag, dueJobLag }: QueuesSample, milliseconds: number): void => {
      for (const instrument of [depth, age, events]) instrument.reset();
      for (const { tenant, queue, counts, oldestReady, ...counted } of queues) {
        for (const state of STATES) depth.set({ tenant, queue, state }, counts[state]);
        age.set({ tenant, queue }, oldestReady);
        for (const event of COUNTED) events.inc({ tenant, queue, event }, counted[event]);
      }
      for (const state of STATES) depth.set({ ...OTHER, state }, other[state]);
      lag.set(scheduleLag);
      dueLag.set(dueJobLag);
      validity.begin(milliseconds);
    },
    /** What queues hold is for another instance to show, or not known. */
    queuesUnknown: (): void => validity.end(),
  };
}
