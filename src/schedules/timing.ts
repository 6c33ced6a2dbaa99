import { invalidField, ServiceError } from '../errors.js';
import { checkCron, CronFault, readCron } from './cron.js';
import { isTimeZone, localTime } from './time-zone.js';

/** When a schedule fires. Instants are microseconds since 1970. */
export interface Timing {
  /** Exactly one of `cron` and `every` is given. */
  readonly cron?: string | undefined;
  /** Milliseconds from one instant to the next. */
  readonly every?: number | undefined;
  readonly timeZone: string;
  /** Where instants of `every` are counted from. */
  readonly anchor: number;
  /** No instant is before it. */
  readonly startAt?: number | undefined;
  /** Every instant is before it. */
  readonly endAt?: number | undefined;
}

/** The first instant after another; undefined when there is none. */
export type InstantsAfter = (micros: number) => number | undefined;

export interface Run {
  readonly at: number;
  /** RFC 3339 with the zone's offset. */
  readonly local: string;
}

/** Whether two schedules fire at the same instants. */
export function sameTiming(one: Omit<Timing, 'anchor'>, other: Omit<Timing, 'anchor'>): boolean {
  return (
    one.cron === other.cron &&
    one.every === other.every &&
    one.timeZone === other.timeZone &&
    one.startAt === other.startAt &&
    one.endAt === other.endAt
  );
}

/** Strictly increasing. Throws CronFault when the cron expression or the zone is not known, or not any more. */
export function instantsOf({ cron, every, timeZone, anchor, startAt, endAt }: Timing): InstantsAfter {
  if (!isTimeZone(timeZone)) throw new CronFault('timeZone is not known');
  const after = cron === undefined ? regular(anchor, every!) : ofCron(cron, timeZone);
  return (micros) => {
    const next = after(startAt === undefined ? micros : Math.max(micros, startAt - 1));
    return next === undefined || (endAt !== undefined && next >= endAt) ? undefined : next;
  };
}

function ofCron(cron: string, timeZone: string): InstantsAfter {
  const times = readCron(cron, timeZone);
  return (micros) => {
    const next = times(Math.floor(micros / 1_000));
    return next === undefined ? undefined : next * 1_000;
  };
}

function regular(anchor: number, every: number): InstantsAfter {
  const step = every * 1_000;
  return (micros) => (micros < anchor ? anchor : anchor + (Math.floor((micros - anchor) / step) + 1) * step);
}

/** Up to `count` instants after another. */
export function upcoming(instants: InstantsAfter, micros: number, count: number): number[] {
  const found: number[] = [];
  for (let at = instants(micros); at !== undefined && found.length < count; at = instants(at)) found.push(at);
  return found;
}

/** Instants as callers are shown them. */
export function shownRuns(instants: readonly number[], timeZone: string): Run[] {
  return instants.map((at) => ({ at, local: localTime(at / 1_000, timeZone) }));
}

/**
 * The instants of what a caller gave, and the first of them after `now`.
 *
 * @throws ServiceError INVALID_ARGUMENT about `cron`, `timeZone`, `endAt`, or what never fires
 */
export function checkTiming(timing: Timing, now: number): { readonly instants: InstantsAfter; readonly first: number } {
  if (!isTimeZone(timing.timeZone))
    throw invalidField('timeZone', 'must be the name of an IANA time zone, such as Europe/Kyiv');
  if (timing.cron !== undefined) refuseFault(timing.cron);
  const { startAt, endAt } = timing;
  if (startAt !== undefined && endAt !== undefined && endAt <= startAt)
    throw invalidField('endAt', 'must be after startAt');
  if (endAt !== undefined && endAt <= now) throw invalidField('endAt', 'must be after now');
  const instants = instantsOf(timing);
  const first = instants(now);
  if (first !== undefined) return { instants, first };
  if (instantsOf({ ...timing, endAt: undefined })(now) !== undefined)
    throw invalidField('endAt', 'is before the first run');
  throw invalidField('cron', 'never comes: no date and time match it');
}

/** What a caller is told who gave neither `cron` nor `every`. */
export function needsTiming(): ServiceError {
  return new ServiceError('INVALID_ARGUMENT', 'one of cron and every is required', {
    fields: ['cron', 'every'].map((field) => ({ field, message: 'is required unless the other is given' })),
  });
}

function refuseFault(cron: string): void {
  try {
    checkCron(cron);
  } catch (error) {
    throw error instanceof CronFault ? invalidField('cron', error.message) : error;
  }
}
