import { type Static, Type } from 'typebox';
import { Bytes, Duration, JsonText, Timestamp } from '../core/wire.js';
import { ServiceError } from '../errors.js';
import { JSON_TYPE } from '../core/content-type.js';
import { RetryPolicy } from '../jobs/retry-policy.js';
import { CronFault } from './cron.js';
import { type Misfire, MISFIRES, type Overlap, OVERLAPS } from './plan-fires.js';
import { instantsOf, shownRuns, type Timing, upcoming } from './timing.js';

const ANY = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER };
const SHOWN_RUNS = 5;

export const ShownRun = Type.Object({
  at: Timestamp(),
  local: Type.String({
    description: 'The same in the schedule’s time zone, with its offset: `2026-03-08T03:00:00-04:00`.',
  }),
});

/** How a schedule is set up. */
export const setUp = {
  cron: Type.Optional(Type.String()),
  every: Type.Optional(Duration(ANY)),
  timeZone: Type.String(),
  startAt: Type.Optional(Timestamp()),
  endAt: Type.Optional(Timestamp()),
  queue: Type.String(),
  kind: Type.Optional(Type.String()),
  contentType: Type.String(),
  priority: Type.Integer(),
  maxAttempts: Type.Optional(Type.Integer({ description: "Absent: the queue's." })),
  retry: Type.Optional(RetryPolicy),
  visibilityTimeout: Type.Optional(Duration({ ...ANY, description: "Absent: the queue's." })),
  headers: Type.Record(Type.String(), Type.String()),
  expiresAfter: Type.Optional(Duration(ANY)),
  misfire: Type.Enum([...MISFIRES]),
  overlap: Type.Enum([...OVERLAPS]),
  paused: Type.Boolean(),
};

/** A schedule as every operation shows it. */
export const Schedule = Type.Object({
  name: Type.String(),
  ...setUp,
  payload: Type.Optional(
    JsonText({ description: 'As it was sent, to the byte, when its content type is JSON. Not in lists.' }),
  ),
  payloadBase64: Type.Optional(Bytes({ description: 'The payload when its content type is not JSON. Not in lists.' })),
  createdAt: Timestamp(),
  updatedAt: Timestamp({ description: 'When it was last changed, paused or resumed.' }),
  nextFire: Type.Optional(Timestamp({ description: 'Absent while it is paused, and when it has ended.' })),
  lastFire: Type.Optional(Timestamp({ description: 'The latest instant that made a job.' })),
  lastJob: Type.Optional(Type.String({ format: 'uuid', description: 'The job made last, by an instant or by a run.' })),
  missed: Type.Integer({
    description: 'Instants that made no job by `misfire`; of one absence at most 1,000 are counted.',
  }),
  skipped: Type.Integer({ description: 'Instants that made no job by `overlap`.' }),
  error: Type.Optional(
    Type.Object(
      {
        message: Type.String(),
        at: Timestamp({ description: 'When it last failed.' }),
        failures: Type.Integer({ description: 'How often in a row.' }),
        retryAt: Type.Optional(Timestamp({ description: 'When it is tried again; absent while it is paused.' })),
      },
      { description: 'Why it cannot fire. Absent when it can.' },
    ),
  ),
  upcoming: Type.Optional(Type.Array(ShownRun, { description: 'The next five runs. Not in lists.' })),
});
export type Schedule = Static<typeof Schedule>;

/** A schedule as the statements of `read-schedules.ts` select it. */
export interface ScheduleRow {
  readonly id: string;
  readonly now: number;
  readonly revision: number;
  readonly name: string;
  readonly cron: string | null;
  readonly every: number | null;
  readonly timeZone: string;
  readonly anchor: number;
  readonly startAt: number | null;
  readonly endAt: number | null;
  readonly queue: string;
  readonly kind: string | null;
  readonly payload: Buffer | null;
  readonly contentType: string | null;
  readonly isJson: boolean;
  readonly headers: string | null;
  readonly rank: number;
  readonly size: number;
  readonly maxAttempts: number | null;
  readonly retry: RetryPolicy | null;
  readonly visibilityTimeout: number | null;
  readonly expiresAfter: number | null;
  readonly misfire: Misfire;
  readonly overlap: Overlap;
  readonly paused: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly nextFire: number | null;
  readonly lookAt: number | null;
  readonly lastFire: number | null;
  readonly lastJob: string | null;
  readonly missed: number;
  readonly skipped: number;
  readonly failures: number;
  readonly error: string | null;
  readonly errorAt: number | null;
}

type TimingRow = Pick<ScheduleRow, 'cron' | 'every' | 'timeZone' | 'anchor' | 'startAt' | 'endAt'>;

/** When the schedule of that row fires. */
export function timingOf(row: TimingRow): Timing {
  return {
    cron: row.cron ?? undefined,
    every: row.every ?? undefined,
    timeZone: row.timeZone,
    anchor: row.anchor,
    startAt: row.startAt ?? undefined,
    endAt: row.endAt ?? undefined,
  };
}

/** Brings a row into the form of the message, without payload and coming runs. */
export function listedSchedule(row: Omit<ScheduleRow, 'payload'>): Schedule {
  return {
    name: row.name,
    cron: row.cron ?? undefined,
    every: row.every ?? undefined,
    timeZone: row.timeZone,
    startAt: row.startAt ?? undefined,
    endAt: row.endAt ?? undefined,
    queue: row.queue,
    kind: row.kind ?? undefined,
    contentType: row.contentType ?? JSON_TYPE,
    priority: row.rank === 0 ? 0 : -row.rank,
    maxAttempts: row.maxAttempts ?? undefined,
    retry: row.retry ?? undefined,
    visibilityTimeout: row.visibilityTimeout ?? undefined,
    headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
    expiresAfter: row.expiresAfter ?? undefined,
    misfire: row.misfire,
    overlap: row.overlap,
    paused: row.paused,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    nextFire: row.nextFire ?? undefined,
    lastFire: row.lastFire ?? undefined,
    lastJob: row.lastJob ?? undefined,
    missed: row.missed,
    skipped: row.skipped,
    error:
      row.error === null
        ? undefined
        : { message: row.error, at: row.errorAt!, failures: row.failures, retryAt: row.lookAt ?? undefined },
  };
}

/** The same with payload and coming runs. */
export function shownSchedule(row: ScheduleRow): Schedule {
  const payload = row.payload ?? undefined;
  return {
    ...listedSchedule(row),
    payload: row.isJson ? payload?.toString('utf8') : undefined,
    payloadBase64: row.isJson ? undefined : payload,
    upcoming: shownRuns(comingRuns(row), row.timeZone),
  };
}

/** None of a schedule that is paused, or whose zone is not known any more. */
function comingRuns(row: ScheduleRow): number[] {
  if (row.nextFire === null) return [];
  try {
    return [row.nextFire, ...upcoming(instantsOf(timingOf(row)), row.nextFire, SHOWN_RUNS - 1)];
  } catch (error) {
    if (error instanceof CronFault) return [];
    throw error;
  }
}

/** What a caller is told who names a schedule that is not there, or whose queue the caller may not use. */
export function noSuchSchedule(): ServiceError {
  return new ServiceError('NOT_FOUND', 'no such schedule', { fields: [{ field: 'name', message: 'is not known' }] });
}
