const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;
const FORM = new RegExp(
  `^${Object.keys(UNITS)
    .map((unit) => `(?:(\\d+(?:\\.\\d+)?)${unit})?`)
    .join('')}$`,
);
const SIZES = Object.values(UNITS);
const LONGEST_TEXT = 64;

/** What a caller is told who sent something else. */
export const DURATION_HINT = 'must be a duration such as "30s", "5m" or "1h30m"';

/** The same form as a JSON Schema pattern (the duration must not be empty, which the pattern's look-ahead says). */
export const DURATION_PATTERN =
  '^(?=\\d)(\\d+(\\.\\d+)?d)?(\\d+(\\.\\d+)?h)?(\\d+(\\.\\d+)?m)?(\\d+(\\.\\d+)?s)?(\\d+(\\.\\d+)?ms)?$';

/**
 * Reads a duration: numbers with the units `d h m s ms`, in this order and each at most once, without sign or blanks:
 * `"30s"`, `"1.5s"`, `"500ms"`, `"5m"`, `"1h30m"`, `"7d"`, `"0s"`. A decimal fraction is taken only where it comes to
 * whole milliseconds: `"0.25s"` is, `"0.0001s"` is not.
 *
 * @returns whole milliseconds (what is past 2^53 − 1 becomes 2^53 − 1, which is past every bound), or undefined when
 * the text is no duration
 */
export function parseDuration(text: string): number | undefined {
  if (text.length === 0 || text.length > LONGEST_TEXT) return undefined;
  const match = FORM.exec(text);
  if (match === null) return undefined;
  let total = 0;
  for (const [index, size] of SIZES.entries()) {
    const amount = match[index + 1];
    if (amount === undefined) continue;
    const milliseconds = multiply(amount, size);
    if (milliseconds === undefined) return undefined;
    total += milliseconds;
  }
  return Math.min(total, Number.MAX_SAFE_INTEGER);
}

function multiply(amount: string, size: number): number | undefined {
  const point = amount.indexOf('.');
  if (point < 0) return Number(amount) * size;
  // In integers, since 1.005 * 1000 is not 1005 in binary fractions.
  const digits = amount.slice(point + 1);
  const scale = 10n ** BigInt(digits.length);
  const scaled = BigInt(amount.slice(0, point) + digits) * BigInt(size);
  return scaled % scale === 0n ? Number(scaled / scale) : undefined;
}

/** Writes whole milliseconds (0 to 10^15) in seconds: `"30s"`, `"1.5s"`, `"0.25s"`. */
export function formatDuration(milliseconds: number): string {
  return `${milliseconds / 1000}s`;
}

/** Writes whole milliseconds as people say them, in the largest unit that leaves a whole number: `366d`, `12h`, `90s`. */
export function durationInWords(milliseconds: number): string {
  if (milliseconds === 0) return '0s';
  for (const [unit, size] of Object.entries(UNITS)) {
    if (milliseconds % size === 0) return `${milliseconds / size}${unit}`;
  }
  return `${milliseconds}ms`;
}
