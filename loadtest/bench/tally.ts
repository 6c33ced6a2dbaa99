import { type Buckets, Histogram } from './histogram.js';

/** What happened since the last time it was asked. */
export interface Taken {
  readonly seconds: number;
  readonly counts: Readonly<Record<string, number>>;
  /** The highest value seen of what goes up and down. */
  readonly peaks: Readonly<Record<string, number>>;
  readonly latencies: Readonly<Record<string, Buckets>>;
  /** The first call that was refused or failed, in words. */
  readonly fault?: string | undefined;
}

/** Counts, peaks and latencies of one load, in the process that makes it. */
export class Tally {
  private counts = new Map<string, number>();
  private peaks = new Map<string, number>();
  private latencies = new Map<string, Histogram>();
  private since = performance.now();
  private finished: number | undefined;
  private fault: string | undefined;

  count(name: string, by = 1): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + by);
  }

  peak(name: string, value: number): void {
    this.peaks.set(name, Math.max(value, this.peaks.get(name) ?? value));
  }

  latency(name: string, milliseconds: number): void {
    let histogram = this.latencies.get(name);
    if (histogram === undefined) this.latencies.set(name, (histogram = new Histogram()));
    histogram.record(milliseconds);
  }

  /** A call that was refused or failed. */
  error(fault: string): void {
    this.count('errors');
    this.fault ??= fault;
  }

  /** The load has nothing left to do: time after this does not count. */
  finish(): void {
    this.finished ??= performance.now();
  }

  /** Answers what happened since the last time, and begins anew. */
  take(): Taken {
    const now = this.finished ?? performance.now();
    const taken = {
      seconds: Math.max(0, now - this.since) / 1_000,
      counts: Object.fromEntries(this.counts),
      peaks: Object.fromEntries(this.peaks),
      latencies: Object.fromEntries([...this.latencies].map(([name, histogram]) => [name, histogram.toBuckets()])),
      fault: this.fault,
    };
    this.counts = new Map();
    this.peaks = new Map();
    this.latencies = new Map();
    this.since = now;
    return taken;
  }
}
