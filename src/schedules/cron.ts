import { Cron, CronPattern } from 'croner';
import { leapsOverMidnight } from './time-zone.js';

/*
 * Cron expressions of five or six fields and their names, in a zone. The arithmetic is croner's. Its rule for clocks that change is
 * ours too (`no-wildcard`):
 * - Fixed times (no `*` and no step in second, minute and hour): one that does not exist that day runs once, at the jump; one that occurs
 *   twice runs at its first occurrence. A local day that does not exist at all has no runs.
 * - All others go by elapsed time: they run at every instant whose local time matches, so through both passes of a repeated hour, and
 *   not in an hour that does not exist.
 * Beyond croner: a field that lists all of its values is a `*`, and a time that a leap over midnight has swallowed runs at the jump too.
 */

const NAMES: ReadonlyMap<string, string> = new Map([
  ['@hourly', '0 * * * *'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@weekly', '0 0 * * 0'],
  ['@monthly', '0 0 1 * *'],
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
]);
const FIELDS = /^[0-9A-Za-z*,/?#+-]+(?:[ \t]+[0-9A-Za-z*,/?#+-]+){4,5}$/;
const OPTIONS = { mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard', paused: true } as const;

/** The expression is none: `message` is a predicate that says why. */
export class CronFault extends Error {
  override readonly name = 'CronFault';
}

/** The first time after an instant, both in milliseconds since 1970; undefined when there is none. A time is a whole second. */
export type TimesAfter = (millis: number) => number | undefined;

/**
 * Reads a cron expression.
 *
 * @param zone as `isTimeZone` takes it
 * @throws CronFault
 */
export function readCron(expression: string, zone: string): TimesAfter {
  const text = normalized(expression);
  const cron = new Cron(text, { ...OPTIONS, timezone: zone });
  const fixed = patternOf(text).isFixedTime;
  // The same times of a zone whose clocks never change.
  const plain = fixed ? new Cron(text, { ...OPTIONS, timezone: 'UTC' }) : undefined;
  return (millis) => {
    const next = cron.nextRun(new Date(millis))?.getTime();
    return plain === undefined ? next : (swallowed(plain, zone, millis, next) ?? next);
  };
}

/** Throws CronFault unless it is a cron expression. */
export function checkCron(expression: string): void {
  normalized(expression);
}

function normalized(expression: string): string {
  const text = NAMES.get(expression.toLowerCase()) ?? expression;
  if (text.startsWith('@'))
    throw new CronFault(`must be one of ${[...NAMES.keys()].join(', ')} where it begins with @`);
  if (!FIELDS.test(text)) throw new CronFault('must have five fields, or six with seconds, separated by blanks');
  const pattern = patternOf(text);
  const fields = text.split(/[ \t]+/);
  const ofTime = [pattern.second, pattern.minute, pattern.hour].slice(6 - fields.length);
  return fields
    .map((field, place) => (ofTime[place]?.every((isOn) => isOn === 1) === true && !field.includes('/') ? '*' : field))
    .join(' ');
}

function patternOf(text: string): CronPattern {
  try {
    return new CronPattern(text, undefined, OPTIONS);
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) throw new CronFault(inWords(error.message));
    throw error;
  }
}

/** Croner's own words, where days and months are counted from 0. */
function inWords(message: string): string {
  const said = message
    .replace(/^CronPattern: /, '')
    .replace(/\b(day|month): (-?\d+)$/, (_, field: string, value: string) => `${field}: ${Number(value) + 1}`)
    .replace(/\.$/, '');
  return `is not a cron expression: ${said.charAt(0).toLowerCase()}${said.slice(1)}`;
}

/** The first jump after `after` and before `next` over a midnight that took a time of `plain` with it. */
function swallowed(plain: Cron, zone: string, after: number, next: number | undefined): number | undefined {
  if (next === undefined) return undefined;
  return leapsOverMidnight(zone, after, next).find(({ from }) => {
    const midnight = Math.ceil((from + 1) / DAY_MS) * DAY_MS;
    const time = plain.nextRun(new Date(from - 1))?.getTime();
    return time !== undefined && time < midnight;
  })?.at;
}

const DAY_MS = 86_400_000;
