import { sqlState } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Health } from './health.js';
import { itemOf, MOST_BYTES } from './item.js';
import type { RelayMetrics } from './metrics.js';
import type { Outcome } from './outcome.js';
import type { Outbox, Row } from './outbox.js';
import type { Pace } from './pace.js';
import { CALL_MS, type Stint } from './stint.js';

/** Long enough for a call and what comes before and after it, so that a claim does not run out under a relay that lives. */
const CLAIM_MS = 3 * CALL_MS;
const PROBE_EVERY_MS = 15_000;
/** Times that Stint may fail for a row and take others before the row is parked. */
const MOST_FAILURES = 10;
const NEWEST_VERSION = 1;

export interface RelayParts {
  readonly outbox: Outbox;
  readonly stint: Pick<Stint, 'send' | 'probe'>;
  readonly pace: Pace;
  readonly health: Health;
  readonly metrics: RelayMetrics;
  readonly log: Log;
  readonly schema: string;
  readonly pollMs: number;
}

/** Stint does not take anything for now. */
class Away extends Error {
  constructor(
    message: string,
    readonly retryAfter?: number,
  ) {
    super(message);
  }
}

interface Sound {
  readonly row: Row;
  readonly json: Buffer;
}

/**
 * Ships rows, one batch after the other: claims them in one short transaction, sends them in none, and deletes them in another once
 * Stint has answered. Whoever dies between these leaves claimed rows, which are sent again when the claim has run out, under the
 * same key, so that Stint makes no second job of them.
 */
export class Relay {
  private running = Promise.resolve();
  private stopping = false;
  private woken = false;
  private wait: { readonly wakeable: boolean; readonly end: () => void } | undefined;
  private isVersionKnown = false;
  private reachedAt = -Infinity;
  private acceptedAt = -Infinity;

  constructor(private readonly parts: RelayParts) {}

  start(): void {
    this.running = this.run();
  }

  /** There may be rows. */
  wake(): void {
    this.woken = true;
    if (this.wait?.wakeable === true) this.wait.end();
  }

  /** Comes back when the batch under way is settled. */
  async stop(): Promise<void> {
    this.stopping = true;
    this.wait?.end();
    await this.running;
  }

  private async run(): Promise<void> {
    const { pace, pollMs } = this.parts;
    while (!this.stopping) {
      try {
        this.woken = false;
        if (!(await this.turn())) await this.pause(Math.min(pollMs, pace.untilNotFull ?? pollMs), true);
      } catch (error) {
        await this.pause(this.failed(error), false);
      }
    }
  }

  /** Answers whether there were rows. */
  private async turn(): Promise<boolean> {
    const { outbox, pace, health } = this.parts;
    await outbox.forget();
    await this.checkVersion();
    const limits = { rows: pace.rows, bytes: MOST_BYTES, time: CLAIM_MS, except: pace.fullQueues };
    const rows = await outbox.claim(limits);
    health.ok('database');
    if (rows.length > 0) {
      await this.ship(rows);
      return true;
    }
    await this.probe();
    pace.recovered();
    return false;
  }

  private async ship(rows: readonly Row[]): Promise<void> {
    const sound: Sound[] = [];
    const faulty: { row: Row; reason: string }[] = [];
    for (const row of rows) {
      const item = itemOf(row);
      if (item.fault === undefined) sound.push({ row, json: item.json });
      else faulty.push({ row, reason: item.fault });
    }
    await this.park(faulty);
    if (sound.length === 0) return;
    const outcome = await this.parts.stint.send(sound.map(({ json }) => json));
    await this.settle(
      sound.map(({ row }) => row),
      outcome,
    );
  }

  private async settle(rows: readonly Row[], outcome: Outcome): Promise<void> {
    const { outbox, pace, health, metrics } = this.parts;
    if (outcome.kind === 'away') {
      await this.giveBack(rows);
      throw new Away(outcome.reason, outcome.retryAfter);
    }
    this.reachedAt = performance.now();
    health.ok('stint');
    if (outcome.kind === 'accepted') {
      this.acceptedAt = performance.now();
      pace.accepted(new Set(rows.map(({ queue }) => queue)));
      metrics.sent(rows.length, outcome.deduplicated);
      await outbox.remove(rows);
    } else if (outcome.kind === 'refused') {
      pace.refused(rows.length);
      await this.park([{ row: rows[outcome.index]!, reason: outcome.reason }]);
      await outbox.release(rows.toSpliced(outcome.index, 1));
    } else {
      await this.find(rows, outcome);
    }
  }

  /** Some row is at fault: fewer are sent until it stands alone. */
  private async find(rows: readonly Row[], outcome: Outcome & { readonly kind: 'unplaced' }): Promise<void> {
    const { outbox, pace } = this.parts;
    const isJobs = pace.unplaced(rows.length);
    const [alone] = rows.length === 1 ? rows : [];
    if (alone !== undefined && outcome.fault === 'job') return this.park([{ row: alone, reason: outcome.reason }]);
    if (alone !== undefined && outcome.fault === 'internal') await this.putOff(alone, outcome.reason);
    else await outbox.release(rows);
    if (alone !== undefined && outcome.fault === 'full') pace.isFull(alone.queue, outcome.retryAfter);
    if (!isJobs) throw new Away(outcome.reason, outcome.retryAfter);
  }

  /** Leaves the row until its claim runs out; parks it when Stint has failed for it all the while and taken others. */
  private async putOff(row: Row, reason: string): Promise<void> {
    const takesOthers = performance.now() - this.acceptedAt < 2 * CLAIM_MS;
    if (row.attempts >= MOST_FAILURES && takesOthers) await this.park([{ row, reason }]);
  }

  private async park(rows: readonly { readonly row: Row; readonly reason: string }[]): Promise<void> {
    const { outbox, metrics, log } = this.parts;
    await outbox.park(rows);
    metrics.parked(rows.length);
    for (const { row, reason } of rows) log.warn({ key: row.key, queue: row.queue, reason }, 'row parked');
  }

  /** What cannot be given back is free when its claim runs out. */
  private async giveBack(rows: readonly Row[]): Promise<void> {
    await this.parts.outbox.release(rows).catch((error: unknown) => this.databaseFailed(error));
  }

  private async probe(): Promise<void> {
    const { stint, health } = this.parts;
    if (health.isOk('stint') && performance.now() - this.reachedAt < PROBE_EVERY_MS) return;
    const { ok, detail } = await stint.probe();
    if (!ok) throw new Away(detail);
    this.reachedAt = performance.now();
    health.ok('stint');
  }

  private async checkVersion(): Promise<void> {
    if (this.isVersionKnown) return;
    const installed = await this.parts.outbox.version();
    if (installed > NEWEST_VERSION) throw new NewerOutbox(installed);
    this.isVersionKnown = true;
  }

  /** Answers how long to wait. */
  private failed(error: unknown): number {
    if (!(error instanceof Away)) {
      this.databaseFailed(error);
      return this.parts.pace.failed();
    }
    if (!this.stopping) this.parts.health.failed('stint', error.message);
    return this.parts.pace.failed(error.retryAfter);
  }

  private databaseFailed(error: unknown): void {
    // Perhaps installed anew, or restored.
    this.isVersionKnown = false;
    this.parts.health.failed('database', inWords(error, this.parts.schema), error);
  }

  private async pause(milliseconds: number, wakeable: boolean): Promise<void> {
    if (this.stopping || (wakeable && this.woken)) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => end(), milliseconds);
      const end = (): void => {
        clearTimeout(timer);
        this.wait = undefined;
        resolve();
      };
      this.wait = { wakeable, end };
    });
  }
}

class NewerOutbox extends Error {
  constructor(version: number) {
    super(`the outbox is of version ${version}: this relay knows ${NEWEST_VERSION}`);
  }
}

/** For everybody who may ask `/readyz`, so without what the database says. */
function inWords(error: unknown, schema: string): string {
  if (error instanceof NewerOutbox || (error instanceof ServiceError && error.code === 'UNAVAILABLE')) {
    return error.message;
  }
  const state = sqlState(error);
  if (state === '42883' || state === '42P01') {
    return `there is no outbox in the schema ${schema}: stint relay install makes it`;
  }
  if (state === '42501') return `the role lacks a right in the schema ${schema}`;
  return 'the database refuses a statement';
}
