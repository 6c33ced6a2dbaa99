import type { Connections } from '../db/pool.js';
import { isConnectionLost, isTransient } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { JobEvent } from '../observability/job-metrics.js';
import type { Metrics } from '../observability/metrics.js';
import type { Database } from './database.js';

/**
 * Micro-batching. Invariants:
 * - No call waits on a timer. When fewer flushes run than the kind allows, one starts at the end of this turn of the event
 *   loop; whatever arrives while it runs makes the next one. The commit in flight is the window.
 * - A flush is bounded in rows and bytes, takes from the waiting tenants in turn, and holds each key at most once; a second
 *   submission under a key waits for the next flush, behind it all of its tenant's, so that order is kept.
 * - A fault in the data of one submission fails that one alone: the flush is cut in halves until it stands by itself.
 * - A flush whose connection died is repeated, told that it is a repetition: kinds make their ids before the statement runs,
 *   and find out what the first try has done.
 * - Rows that wait are bounded, in all and per tenant; beyond that a submission is refused with UNAVAILABLE at once.
 */
export interface BatchKind<Item, Result> {
  /** The label in metrics. */
  readonly name: string;
  readonly connections: keyof Database;
  readonly maxRows: number;
  readonly maxBytes: number;
  readonly maxFlushes: number;
  /**
   * Carries out all of `items`, in one transaction. Returns for each its result, or the error that this one gets.
   * Throws when nothing was carried out, or when that is not known (a lost connection).
   */
  readonly flush: (
    connections: Connections,
    items: readonly Item[],
    repeated: boolean,
  ) => Promise<readonly (Result | Error)[]>;
  /** What a result means for the count of what became of jobs. */
  readonly count?: (result: Result, add: (event: JobEvent, jobs: number) => void) => void;
}

export interface Submission<Item> {
  readonly tenantId: string;
  readonly item: Item;
  readonly rows: number;
  readonly bytes: number;
  /** What may stand only once in a flush. */
  readonly keys: readonly string[];
}

export interface BatcherParts {
  readonly connections: Connections;
  /** Rows that may wait. */
  readonly maxWaiting: number;
  readonly metrics: Metrics;
  readonly log: Log;
}

class Pending<Item, Result> {
  readonly since = performance.now();

  constructor(
    readonly submission: Submission<Item>,
    readonly resolve: (result: Result) => void,
    readonly reject: (error: unknown) => void,
  ) {}
}

/** What waits of one tenant, in order; the first `taken` of it are in the batch that is being put together. */
interface Line<Item, Result> {
  pending: Pending<Item, Result>[];
  rows: number;
  taken: number;
}

/** Tries of a flush whose connection died, and the pause before each, in milliseconds: a restart of the database is ridden out. */
const PAUSES = [20, 100, 400, 1_000, 2_000, 2_000];

export class Batcher<Item, Result> {
  private readonly lines = new Map<string, Line<Item, Result>>();
  private waitingRows = 0;
  private flushes = 0;
  private planned = false;
  private onIdle: (() => void)[] = [];

  constructor(
    private readonly kind: BatchKind<Item, Result>,
    private readonly parts: BatcherParts,
  ) {}

  /** Adds to the next flush. Throws UNAVAILABLE when too much waits, or the error of this very submission. */
  submit(submission: Submission<Item>): Promise<Result> {
    const { tenantId, rows } = submission;
    const { maxWaiting } = this.parts;
    let line = this.lines.get(tenantId);
    const pastShare = line !== undefined && line.rows + rows > maxWaiting / 2;
    if (this.waitingRows + rows > maxWaiting || pastShare) {
      return Promise.reject(new ServiceError('UNAVAILABLE', 'too many calls wait for the database', { retryAfter: 1 }));
    }
    if (line === undefined) this.lines.set(tenantId, (line = { pending: [], rows: 0, taken: 0 }));
    const { pending } = line;
    line.rows += rows;
    this.waitingRows += rows;
    this.plan();
    return new Promise((resolve, reject) => pending.push(new Pending(submission, resolve, reject)));
  }

  /** Rows not yet handed to a statement. */
  get waiting(): number {
    return this.waitingRows;
  }

  /** Resolves when nothing waits and nothing runs. */
  idle(): Promise<void> {
    if (this.waitingRows === 0 && this.flushes === 0) return Promise.resolve();
    return new Promise((resolve) => this.onIdle.push(resolve));
  }

  private plan(): void {
    if (this.planned || this.flushes >= this.kind.maxFlushes || this.lines.size === 0) return;
    this.planned = true;
    setImmediate(() => {
      this.planned = false;
      const batch = this.take();
      if (batch.length > 0) void this.run(batch);
      this.plan();
    });
  }

  private async run(batch: Pending<Item, Result>[]): Promise<void> {
    this.flushes += 1;
    await this.flush(batch);
    this.flushes -= 1;
    this.plan();
    if (this.waitingRows === 0 && this.flushes === 0) for (const done of this.onIdle.splice(0)) done();
  }

  /** One from each tenant in turn; whoever was served goes to the end of the line. */
  private take(): Pending<Item, Result>[] {
    const batch: Pending<Item, Result>[] = [];
    const keys = new Set<string>();
    let rows = 0;
    let bytes = 0;
    const fits = (next: Submission<Item>): boolean =>
      batch.length === 0 ||
      (rows + next.rows <= this.kind.maxRows &&
        bytes + next.bytes <= this.kind.maxBytes &&
        !next.keys.some((key) => keys.has(key)));
    const turn = [...this.lines.values()];
    while (turn.length > 0) {
      for (let index = 0; index < turn.length;) {
        const line = turn[index]!;
        const next = line.pending[line.taken];
        if (next === undefined || !fits(next.submission)) {
          turn.splice(index, 1);
          continue;
        }
        batch.push(next);
        line.taken += 1;
        line.rows -= next.submission.rows;
        rows += next.submission.rows;
        bytes += next.submission.bytes;
        for (const key of next.submission.keys) keys.add(key);
        index += 1;
      }
    }
    this.removeTaken();
    this.waitingRows -= rows;
    return batch;
  }

  private removeTaken(): void {
    for (const [tenantId, line] of [...this.lines]) {
      if (line.taken === 0) continue;
      this.lines.delete(tenantId);
      if (line.taken === line.pending.length) continue;
      line.pending = line.pending.slice(line.taken);
      line.taken = 0;
      this.lines.set(tenantId, line);
    }
  }

  private async flush(batch: readonly Pending<Item, Result>[], tries = 0): Promise<void> {
    const started = performance.now();
    try {
      const results = await this.kind.flush(
        this.parts.connections,
        batch.map(({ submission }) => submission.item),
        tries > 0,
      );
      batch.forEach((pending, index) => {
        const result = results[index];
        if (result instanceof Error) {
          pending.reject(result);
          return;
        }
        this.kind.count?.(result as Result, this.parts.metrics.jobs);
        pending.resolve(result as Result);
      });
      this.measure(batch, started, 'ok');
    } catch (error) {
      this.measure(batch, started, 'error');
      await this.recover(batch, tries, error);
    }
  }

  private async recover(batch: readonly Pending<Item, Result>[], tries: number, error: unknown): Promise<void> {
    if (isConnectionLost(error) || isTransient(error)) {
      const pause = PAUSES[tries];
      if (pause === undefined) {
        for (const pending of batch) pending.reject(error);
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.75 + Math.random() / 2)));
      return this.flush(batch, tries + 1);
    }
    if (batch.length === 1) {
      this.parts.log.error({ batch: this.kind.name, err: error }, 'one item of a batch cannot be stored');
      batch[0]!.reject(error);
      return;
    }
    const half = batch.length >> 1;
    await this.flush(batch.slice(0, half), tries);
    await this.flush(batch.slice(half), tries);
  }

  private measure(batch: readonly Pending<Item, Result>[], started: number, result: 'ok' | 'error'): void {
    const rows = batch.reduce((sum, { submission }) => sum + submission.rows, 0);
    this.parts.metrics.flush({
      kind: this.kind.name,
      rows,
      seconds: (performance.now() - started) / 1_000,
      waitedSeconds: Math.max(0, started - batch[0]!.since) / 1_000,
      result,
    });
  }
}
