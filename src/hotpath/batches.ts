import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { Batcher, type BatchKind, type Submission } from './batcher.js';
import type { Database } from './database.js';

export interface BatchesParts {
  readonly database: Database;
  readonly maxWaiting: number;
  /** How many flushes of a kind run at once, when each is of one submission alone. */
  readonly oneByOne?: number | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
}

/** One batcher for each kind of flush, made when the kind is first used. */
export class Batches {
  private readonly batchers = new Map<{ readonly name: string }, Batcher<never, unknown>>();

  constructor(private readonly parts: BatchesParts) {}

  /** Submits to the kind's next flush; see `Batcher.submit`. */
  submit<Item, Result>(kind: BatchKind<Item, Result>, submission: Submission<Item>): Promise<Result> {
    let batcher = this.batchers.get(kind) as Batcher<Item, Result> | undefined;
    if (batcher === undefined) {
      batcher = new Batcher(this.bounded(kind), { ...this.parts, connections: this.parts.database[kind.connections] });
      this.batchers.set(kind, batcher as unknown as Batcher<never, unknown>);
    }
    return batcher.submit(submission);
  }

  /** Sets the gauges of what waits, for a scrape: on the way of every call they would cost more than they tell. */
  measureWaiting(): void {
    for (const [{ name }, batcher] of this.batchers) this.parts.metrics.batchWaiting(name, batcher.waiting);
  }

  private bounded<Item, Result>(kind: BatchKind<Item, Result>): BatchKind<Item, Result> {
    const { oneByOne } = this.parts;
    return oneByOne === undefined ? kind : { ...kind, maxRows: 1, maxFlushes: oneByOne };
  }

  /** Resolves when every batcher has been idle. */
  async idle(): Promise<void> {
    await Promise.all([...this.batchers.values()].map((batcher) => batcher.idle()));
  }
}
