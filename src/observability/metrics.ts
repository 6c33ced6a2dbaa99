import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { callInstruments, SECONDS } from './call-metrics.js';

/*
 * Every instrument of the service. Names begin `stint_`, units are base units, counters end in `_total`. No label holds
 * an id, a key, a worker's name or an error's text.
 *
 * | name                                      | type      | labels                     | what it says                                                             |
 * | ----------------------------------------- | --------- | -------------------------- | ------------------------------------------------------------------------ |
 * | `stint_operation_seconds`                 | histogram | operation, transport       | time spent on a call, without the time a long poll sat idle              |
 * | `stint_operation_wait_seconds_total`      | counter   | operation, transport       | time long polls sat idle                                                 |
 * | `stint_operations_total`                  | counter   | operation, transport, code | calls by outcome: `OK`, a code of the error table, or `CLIENT_CLOSED`    |
 * | `stint_parked_leases`                     | gauge     | –                          | leases that wait for a job                                               |
 * | `stint_batch_rows`                        | histogram | kind                       | callers' items written by one statement                                  |
 * | `stint_batch_flush_seconds`               | histogram | kind                       | time of that statement                                                   |
 * | `stint_batch_wait_seconds`                | histogram | kind                       | time the oldest item of a batch waited before it                         |
 * | `stint_batch_failures_total`              | counter   | kind                       | statements that failed                                                   |
 * | `stint_batch_waiting_rows`                | gauge     | kind                       | items not yet handed to a statement                                      |
 * | `stint_deliveries_returned_total`         | counter   | –                          | leased jobs put back since their caller was gone before the answer       |
 * | `stint_jobs_total`                        | counter   | event                      | what became of jobs: enqueued, leased, acked, nacked, released, dead, …  |
 * | `stint_queue_jobs`                        | gauge     | tenant, queue, state       | jobs of the deepest queues; the rest is summed as `other`                |
 * | `stint_queue_oldest_ready_seconds`        | gauge     | tenant, queue              | age of the oldest ready job of those queues                              |
 * | `stint_pool_connections`                  | gauge     | pool, state                | database connections: total, idle                                        |
 * | `stint_pool_waiting`                      | gauge     | pool                       | statements waiting for a connection                                      |
 * | `stint_database_calls_total`              | counter   | kind                       | round trips to the database                                              |
 * | `stint_notifications_healthy`             | gauge     | –                          | 1 while LISTEN is heard, 0 while the service lives on its safety poll    |
 * | `stint_task_seconds`                      | histogram | task                       | time of one run of a background task                                     |
 * | `stint_task_runs_total`                   | counter   | task, result               | runs by result                                                           |
 * | `stint_task_rows_total`                   | counter   | task, count                | what the runs did, in the task's own words                               |
 * | `stint_task_last_success_timestamp_seconds` | gauge   | task                       | when the task last went through                                          |
 * | `stint_invariant_breaches`                | gauge     | breach                     | jobs that break a rule of storage, as the last round of checks found     |
 * | `stint_invariant_round_timestamp_seconds` | gauge     | –                          | when a round of checks last came round; 0 before the first               |
 * | `stint_process_*`, `stint_nodejs_*`       |           |                            | processor, memory, event loop lag, garbage collection of the process     |
 */

const ROWS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export type JobEvent =
  | 'enqueued'
  | 'deduplicated'
  | 'leased'
  | 'heartbeaten'
  | 'acked'
  | 'nacked'
  | 'released'
  | 'expired'
  | 'dead'
  | 'cancelled'
  | 'promoted'
  | 'redriven'
  | 'purged'
  | 'pruned';

export interface QueueDepth {
  readonly tenant: string;
  readonly queue: string;
  readonly state: string;
  readonly value: number;
}

export type QueueAge = Omit<QueueDepth, 'state'>;

export interface PoolState {
  readonly name: string;
  readonly total: number;
  readonly idle: number;
  readonly waiting: number;
}

export interface Flush {
  readonly kind: string;
  readonly rows: number;
  readonly seconds: number;
  /** How long the oldest item of the batch had waited. */
  readonly waitedSeconds: number;
  readonly result: 'ok' | 'error';
}

export type Metrics = ReturnType<typeof createMetrics>;

/** The instruments of one service, in a registry of their own. */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'stint_' });
  return {
    ...callInstruments(registers),
    ...batchInstruments(registers),
    ...queueInstruments(registers),
    ...databaseInstruments(registers),
    ...taskInstruments(registers),
    /** The text of a scrape and its media type. */
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}

function batchInstruments(registers: Registry[]) {
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
      if (flush.result === 'error') failures.inc({ kind });
    },
    batchWaiting: (kind: string, count: number): void => waiting.set({ kind }, count),
  };
}

function queueInstruments(registers: Registry[]) {
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
  const depth = new Gauge({
    name: 'stint_queue_jobs',
    help: 'Jobs of the deepest queues',
    labelNames: ['tenant', 'queue', 'state'] as const,
    registers,
  });
  const age = new Gauge({
    name: 'stint_queue_oldest_ready_seconds',
    help: 'Age of the oldest ready job of a queue',
    labelNames: ['tenant', 'queue'] as const,
    registers,
  });
  return {
    returnedUndelivered: (count: number): void => returned.inc(count),
    jobs: (event: JobEvent, count: number): void => events.inc({ event }, count),
    /** Replaces all depths: a queue that is not among the rows vanishes. Give at most 100 rows and one `other` per state. */
    queueDepth: (rows: readonly QueueDepth[]): void => {
      depth.reset();
      for (const { value, ...labels } of rows) depth.set(labels, value);
    },
    /** Replaces all ages, in seconds; bounded as the depths are. */
    oldestAge: (rows: readonly QueueAge[]): void => {
      age.reset();
      for (const { value, ...labels } of rows) age.set(labels, value);
    },
  };
}

function databaseInstruments(registers: Registry[]) {
  const connections = new Gauge({
    name: 'stint_pool_connections',
    help: 'Database connections',
    labelNames: ['pool', 'state'] as const,
    registers,
  });
  const waiting = new Gauge({
    name: 'stint_pool_waiting',
    help: 'Statements waiting for a connection',
    labelNames: ['pool'] as const,
    registers,
  });
  const calls = new Counter({
    name: 'stint_database_calls_total',
    help: 'Round trips to the database',
    labelNames: ['kind'] as const,
    registers,
  });
  const healthy = new Gauge({
    name: 'stint_notifications_healthy',
    help: '1 while LISTEN is heard, 0 while the service lives on its safety poll',
    registers,
  });
  return {
    pool: (state: PoolState): void => {
      connections.set({ pool: state.name, state: 'total' }, state.total);
      connections.set({ pool: state.name, state: 'idle' }, state.idle);
      waiting.set({ pool: state.name }, state.waiting);
    },
    databaseCalls: (kind: string, count = 1): void => calls.inc({ kind }, count),
    notificationsHealthy: (ok: boolean): void => healthy.set(ok ? 1 : 0),
  };
}

function taskInstruments(registers: Registry[]) {
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
    invariantBreaches: (breach: string, jobs: number): void => breaches.set({ breach }, jobs),
    invariantRound: (): void => round.setToCurrentTime(),
    task: (task: string, result: 'ok' | 'error', took: number, counts: Readonly<Record<string, number>> = {}): void => {
      seconds.observe({ task }, took);
      runs.inc({ task, result });
      for (const [count, value] of Object.entries(counts)) rows.inc({ task, count }, value);
      if (result === 'ok') success.setToCurrentTime({ task });
    },
  };
}
