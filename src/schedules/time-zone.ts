const NAME = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+)*$/;
const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;

/** How far local time was ahead of UTC at an instant, for one zone; milliseconds in, milliseconds out. */
export type OffsetAt = (millis: number) => number;

/** The clock going forward over a midnight: local times from `from` to the end of that day do not exist. */
export interface LeapOverMidnight {
  /** The first instant after the leap. */
  readonly at: number;
  /** Local time, as if it were UTC, from which on nothing exists; not itself the beginning of a day. */
  readonly from: number;
}

/** Whether it is the name of a zone of the IANA database that this process knows. An offset such as `+03:00` is none. */
export function isTimeZone(name: string): boolean {
  if (!NAME.test(name)) return false;
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

/** Local time with its offset, in the form of RFC 3339: `2026-03-08T03:00:00-04:00`. Whole seconds; the rest is dropped. */
export function localTime(millis: number, zone: string): string {
  const offset = offsetsOf(zone)(millis);
  const minutes = Math.abs(offset) / 60_000;
  const two = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  const sign = offset < 0 ? '-' : '+';
  return `${new Date(millis + offset).toISOString().slice(0, 19)}${sign}${two(minutes / 60)}:${two(minutes % 60)}`;
}

/** Offsets of a zone. Throws RangeError for one that is not known. */
export function offsetsOf(zone: string): OffsetAt {
  const format = formatOf(zone);
  return (millis) => offsetIn(format.format(millis));
}

const FORMS = new Map<string, Intl.DateTimeFormat>();
const MOST_ZONES = 1_000;

/** Kept, since making one takes a hundred times as long as using it. */
function formatOf(zone: string): Intl.DateTimeFormat {
  let format = FORMS.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', { timeZone: zone, timeZoneName: 'longOffset' });
    if (FORMS.size >= MOST_ZONES) FORMS.clear();
    FORMS.set(zone, format);
  }
  return format;
}

const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;

function offsetIn(text: string): number {
  const [, sign, hours = '0', minutes = '0', seconds = '0'] = OFFSET.exec(text)!;
  return (sign === '-' ? -1 : 1) * ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1_000;
}

const LEAPS = new Map<string, readonly LeapOverMidnight[]>();
const MOST_YEARS = 10_000;

/** The zone's leaps over a midnight after `after` and up to `until`, in order. Rare: Nuuk has one each spring. */
export function leapsOverMidnight(zone: string, after: number, until: number): LeapOverMidnight[] {
  const last = new Date(until).getUTCFullYear();
  const leaps: LeapOverMidnight[] = [];
  for (let year = new Date(after).getUTCFullYear(); year <= last; year += 1) leaps.push(...leapsOfYear(zone, year));
  return leaps.filter(({ at }) => at > after && at <= until);
}

function leapsOfYear(zone: string, year: number): readonly LeapOverMidnight[] {
  const key = `${zone} ${year}`;
  let leaps = LEAPS.get(key);
  if (leaps === undefined) {
    leaps = findLeaps(offsetsOf(zone), Date.UTC(year), Date.UTC(year + 1));
    if (LEAPS.size >= MOST_YEARS) LEAPS.clear();
    LEAPS.set(key, leaps);
  }
  return leaps;
}

/** No zone has ever changed its clocks and back within a week. */
function findLeaps(offsetAt: OffsetAt, from: number, until: number): LeapOverMidnight[] {
  const leaps: LeapOverMidnight[] = [];
  for (let start = from; start < until; start += WEEK_MS) {
    const end = Math.min(start + WEEK_MS, until);
    const [before, after] = [offsetAt(start), offsetAt(end)];
    if (after <= before) continue;
    const at = changeBetween(offsetAt, start, end);
    const gone = at + before;
    const back = at + after;
    const midnight = Math.ceil(gone / DAY_MS) * DAY_MS;
    if (gone < midnight && midnight <= back) leaps.push({ at, from: gone });
  }
  return leaps;
}

/** The first second at which the offset is no longer what it was at `start`. */
function changeBetween(offsetAt: OffsetAt, start: number, end: number): number {
  const before = offsetAt(start);
  let [low, high] = [start / 1_000, end / 1_000];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle * 1_000) === before) low = middle;
    else high = middle;
  }
  return high * 1_000;
}
