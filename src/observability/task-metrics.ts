import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { SECONDS } from './call-metrics.js';
import type { JobEvent } from './job-metrics.js';

/** What the counts of tasks mean for the count of what became of jobs, by task and count. */
export const EVENTS_OF_TASKS: Readonly<Record<string, Readonly<Record<string, JobEvent>>>> = {
  'return-expired': { expired: 'expired', dead: 'dead', cancelled: 'cancelled' },
  'expire-jobs': { expired: 'dead' },
  'promote-due': { promoted: 'promoted' },
  'fire-schedules': { fired: 'enqueued' },
  'fan-out-events': { deliveries: 'enqueued' },
  purge: { purged: 'purged' },
};

/** Of the background tasks. */
export function taskInstruments(registers: Registry[], jobs: (event: JobEvent, count: number) => void) {
  const seconds = new Histogram({
    name: 'stint_task_seconds',
    help: 'Time of one run of a background task',
    labelNames: ['task'] as const,
    buckets: SECONDS,
    registers,
  });
  const runs = new Counter({
    name: 'stint_task_runs_total',
    help: 'Runs of a background task by result',
    labelNames: ['task', 'result'] as const,
    registers,
  });
  const rows = new Counter({
    name: 'stint_task_rows_total',
    help: "What the runs did, in the task's own words",
    labelNames: ['task', 'count'] as const,
    registers,
  });
  const success = new Gauge({
    name: 'stint_task_last_success_timestamp_seconds',
    help: 'When the task last went through',
    labelNames: ['task'] as const,
    registers,
  });
  const breaches = new Gauge({
    name: 'stint_invariant_breaches',
    help: 'Jobs that break a rule of storage, as the last round of checks found',
    labelNames: ['breach'] as const,
    registers,
  });
  const round = new Gauge({
    name: 'stint_invariant_round_timestamp_seconds',
    help: 'When a round of checks last came round; 0 before the first',
    registers,
  });
  return {
    invariantBreaches: (breach: string, count: number): void => breaches.set({ breach }, count),
    invariantRound: (): void => round.setToCurrentTime(),
    task: (task: string, result: 'ok' | 'error', took: number, counts: Readonly<Record<string, number>> = {}): void => {
      seconds.observe({ task }, took);
      runs.inc({ task, result: 'ok' }, result === 'ok' ? 1 : 0);
      runs.inc({ task, result: 'error' }, result === 'error' ? 1 : 0);
      for (const [count, value] of Object.entries(counts)) {
        rows.inc({ task, count }, value);
        const event = EVENTS_OF_TASKS[task]?.[count];
        if (event !== undefined) jobs(event, value);
      }
      if (result === 'ok') success.setToCurrentTime({ task });
    },
  };
}
