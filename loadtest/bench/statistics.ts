/** The median; NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

export interface Trend {
  readonly slope: number;
  /** The standard error of the slope; 0 for fewer than three points. */
  readonly error: number;
}

/** The least-squares line through (0, y0), (1, y1), … */
export function trend(values: readonly number[]): Trend {
  const n = values.length;
  const [middle, average] = [(n - 1) / 2, mean(values)];
  const spread = values.reduce((sum, _, x) => sum + (x - middle) ** 2, 0);
  const slope = values.reduce((sum, y, x) => sum + (x - middle) * (y - average), 0) / spread;
  if (n < 3) return { slope, error: 0 };
  const residual = values.reduce((sum, y, x) => sum + (y - average - slope * (x - middle)) ** 2, 0);
  return { slope, error: Math.sqrt(residual / (n - 2) / spread) };
}
