const LONGEST_MS = 3_600_000;

/**
 * Reads a `Retry-After`: seconds, or a date.
 *
 * @param now milliseconds since 1970
 * @returns milliseconds from now, an hour at most; undefined for what is neither or is over
 */
export function readRetryAfter(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const milliseconds = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return milliseconds > 0 ? Math.min(milliseconds, LONGEST_MS) : undefined;
}
