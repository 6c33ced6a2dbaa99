import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { SECONDS } from './call-metrics.js';

const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export interface Flush {
  readonly kind: string;
  readonly rows: number;
  readonly seconds: number;
  /** How long the oldest item of the batch had waited. */
  readonly waitedSeconds: number;
  readonly result: 'ok' | 'error';
}

/** Of the statements that serve many callers at once. */
export function batchInstruments(registers: Registry[]) {
  const labelNames = ['kind'] as const;
  const rows = new Histogram({
    name: 'stint_batch_rows',
    help: "Callers' items written by one statement",
    labelNames,
    buckets: ROWS,
    registers,
  });
  const seconds = new Histogram({
    name: 'stint_batch_flush_seconds',
    help: 'Time of a batch statement',
    labelNames,
    buckets: SECONDS,
    registers,
  });
  const waited = new Histogram({
    name: 'stint_batch_wait_seconds',
    help: 'Time the oldest item of a batch waited before its statement',
    labelNames,
    buckets: SECONDS,
    registers,
  });
  const failures = new Counter({
    name: 'stint_batch_failures_total',
    help: 'Batch statements that failed',
    labelNames,
    registers,
  });
  const waiting = new Gauge({
    name: 'stint_batch_waiting_rows',
    help: 'Items not yet handed to a statement',
    labelNames,
    registers,
  });
  return {
    flush: (flush: Flush): void => {
      const { kind } = flush;
      rows.observe({ kind }, flush.rows);
      seconds.observe({ kind }, flush.seconds);
      waited.observe({ kind }, flush.waitedSeconds);
      failures.inc({ kind }, flush.result === 'error' ? 1 : 0);
    },
    batchWaiting: (kind: string, count: number): void => waiting.set({ kind }, count),
  };
}
