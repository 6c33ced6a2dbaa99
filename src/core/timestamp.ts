const FORM = /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;
const LONGEST_TEXT = 35;
const DAYS_IN_MONTH = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** What a caller is told who sent something else. */
export const TIMESTAMP_HINT = 'must be an RFC 3339 timestamp such as "2031-02-03T04:05:06Z"';

/** 0001-01-01T00:00:00Z and the end of the year 9999, in microseconds since 1970, both inclusive. */
export const FIRST_TIMESTAMP = -62_135_596_800_000_000;
export const LAST_TIMESTAMP = 253_402_300_800_000_000 - 32;

/**
 * Reads an RFC 3339 timestamp with an offset or `Z`: a date that exists, years 0001 to 9999 in UTC, up to nine digits of
 * a second, of which those past the microsecond are dropped. Leap seconds (`:60`) are refused, since no clock behind the
 * service has them.
 *
 * @returns whole microseconds since 1970, exact from 1684 to 2255 (where a double ends to hold every one of them) and
 * rounded down to 32 µs outside; undefined when the text is no timestamp
 */
export function parseTimestamp(text: string): number | undefined {
  if (text.length > LONGEST_TEXT) return undefined;
  const match = FORM.exec(text);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHour = '0', offsetMinute = '0'] = match;
  if (!isDate(Number(year), Number(month), Number(day))) return undefined;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined;

  const offset = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60 * (sign === '-' ? -1 : 1);
  const local = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  const whole = (local / 1000 - offset) * 1_000_000;
  const micros = Number(fraction.slice(0, 6).padEnd(6, '0'));
  const instant = Number.isSafeInteger(whole + micros) ? whole + micros : whole + (micros - (micros % 32));
  return instant < FIRST_TIMESTAMP || instant > LAST_TIMESTAMP ? undefined : instant;
}

function isDate(year: number, month: number, day: number): boolean {
  const days = DAYS_IN_MONTH[month - 1];
  if (year === 0 || days === undefined || day === 0) return false;
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (month === 2 && leap ? 29 : days);
}

const TWO_DIGITS = Array.from({ length: 60 }, (_, number) => String(number).padStart(2, '0'));

// An answer of a thousand jobs has thousands of instants, nearly all of one day, and a Date costs most of writing one.
const lastDay = { day: Number.NaN, text: '' };

/**
 * Writes microseconds since 1970 in UTC, with six digits of a second and `Z`.
 *
 * @throws RangeError when it is no whole number or lies outside the years 0001 to 9999
 */
export function formatTimestamp(micros: number): string {
  if (!Number.isInteger(micros) || micros < FIRST_TIMESTAMP || micros > LAST_TIMESTAMP) {
    throw new RangeError(`${micros} is no instant in microseconds`);
  }
  // By the remainder: a quotient near a whole number would be rounded up to it.
  let rest = micros % 1_000_000;
  if (rest < 0) rest += 1_000_000;
  const second = (micros - rest) / 1_000_000;
  const day = Math.floor(second / 86_400);
  if (day !== lastDay.day) {
    lastDay.text = new Date(day * 86_400_000).toISOString().slice(0, 10);
    lastDay.day = day;
  }
  return `${lastDay.text}T${timeOfDay(second - day * 86_400)}.${String(1_000_000 + rest).slice(1)}Z`;
}

function timeOfDay(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  return `${TWO_DIGITS[Math.floor(minutes / 60)]!}:${TWO_DIGITS[minutes % 60]!}:${TWO_DIGITS[seconds % 60]!}`;
}
