const FLOOR = 0.01;
const STEP = Math.log(1.02);

/** Buckets and how many values each holds: what goes from process to process. */
export type Buckets = readonly (readonly [bucket: number, values: number])[];

/** Durations in milliseconds, in buckets 2 % wide, so that those of several processes can be put together. */
export class Histogram {
  private readonly buckets = new Map<number, number>();
  private total = 0;

  record(milliseconds: number): void {
    this.add(Math.ceil(Math.log(Math.max(milliseconds, FLOOR) / FLOOR) / STEP), 1);
  }

  merge(buckets: Buckets): void {
    for (const [bucket, values] of buckets) this.add(bucket, values);
  }

  get count(): number {
    return this.total;
  }

  /** The upper edge of the bucket that holds the quantile; NaN when nothing was recorded. */
  quantile(q: number): number {
    let left = Math.max(1, Math.ceil(q * this.total));
    for (const bucket of [...this.buckets.keys()].sort((a, b) => a - b)) {
      left -= this.buckets.get(bucket)!;
      if (left <= 0) return FLOOR * Math.exp(bucket * STEP);
    }
    return Number.NaN;
  }

  toBuckets(): Buckets {
    return [...this.buckets];
  }

  private add(bucket: number, values: number): void {
    this.buckets.set(bucket, (this.buckets.get(bucket) ?? 0) + values);
    this.total += values;
  }
}
