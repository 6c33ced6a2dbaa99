import { Histogram } from './histogram.js';
import type { Taken } from './tally.js';

/** What several generators took over the same time. */
export interface Merged {
  readonly seconds: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly peaks: Readonly<Record<string, number>>;
  readonly latencies: Readonly<Record<string, Histogram>>;
  readonly faults: readonly string[];
}

/** Puts together what was taken at the same time. */
export function merge(taken: readonly Taken[]): Merged {
  const counts: Record<string, number> = {};
  const peaks: Record<string, number> = {};
  const latencies: Record<string, Histogram> = {};
  for (const one of taken) {
    for (const [name, value] of Object.entries(one.counts)) counts[name] = (counts[name] ?? 0) + value;
    for (const [name, value] of Object.entries(one.peaks)) peaks[name] = Math.max(peaks[name] ?? value, value);
    for (const [name, buckets] of Object.entries(one.latencies)) (latencies[name] ??= new Histogram()).merge(buckets);
  }
  return {
    seconds: Math.max(...taken.map(({ seconds }) => seconds)),
    counts,
    peaks,
    latencies,
    faults: taken.flatMap(({ fault }) => (fault === undefined ? [] : [fault])),
  };
}

/** A count per second. */
export function rateOf({ counts, seconds }: Pick<Merged, 'counts' | 'seconds'>, name: string): number {
  return (counts[name] ?? 0) / seconds;
}

/** A quantile of a latency in milliseconds; NaN when nothing was recorded. */
export function quantileOf({ latencies }: Pick<Merged, 'latencies'>, name: string, q: number): number {
  return latencies[name]?.quantile(q) ?? Number.NaN;
}
