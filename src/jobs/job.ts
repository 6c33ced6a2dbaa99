import { type Static, Type } from 'typebox';
import { Bytes, Duration, JsonText, Timestamp } from '../core/wire.js';
import { AttemptError, LastError, readAttemptError } from './attempt-error.js';
import { RetryPolicy } from './retry-policy.js';

export const JOB_STATES = ['scheduled', 'ready', 'leased', 'completed', 'dead', 'cancelled'] as const;
export const DEAD_REASONS = ['attempts_spent', 'final', 'expired', 'body_missing'] as const;
const OUTCOMES = ['ACKED', 'NACKED', 'RELEASED', 'EXPIRED', 'UNDELIVERED', 'CANCELLED'] as const;

const LONGEST = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

const Attempt = Type.Object({
  attempt: Type.Integer({ description: 'Counted from 1; a redrive begins anew.' }),
  epoch: Type.Integer({ description: 'The `leaseEpoch` of its lease.' }),
  worker: Type.Optional(Type.String()),
  startedAt: Timestamp(),
  endedAt: Timestamp(),
  outcome: Type.Enum([...OUTCOMES]),
  error: Type.Optional(AttemptError),
});

/** A job as every operation shows it. What it does not say itself is its queue's, as of now. */
export const Job = Type.Object({
  id: Type.String({ format: 'uuid' }),
  queue: Type.String(),
  state: Type.Enum([...JOB_STATES]),
  kind: Type.Optional(Type.String()),
  payload: Type.Optional(JsonText({ description: 'As it was sent, to the byte, when its content type is JSON.' })),
  payloadBase64: Type.Optional(Bytes({ description: 'The payload when its content type is not JSON.' })),
  contentType: Type.Optional(Type.String()),
  headers: Type.Record(Type.String(), Type.String()),
  priority: Type.Integer(),
  attempt: Type.Integer({
    description:
      'Of a leased job the attempt under way, of a finished one its last, otherwise the number of attempts spent.',
  }),
  maxAttempts: Type.Optional(
    Type.Integer({ description: 'Like every enqueue field, absent once a finished job’s body is past its retention.' }),
  ),
  retry: Type.Optional(RetryPolicy),
  visibilityTimeout: Type.Optional(Duration(LONGEST)),
  idempotencyKey: Type.Optional(Type.String()),
  enqueuedAt: Timestamp(),
  runAt: Type.Optional(Timestamp({ description: 'When it is, or was, due.' })),
  expiresAt: Type.Optional(Timestamp()),
  releases: Type.Integer({ description: 'How often it was handed back without spending an attempt.' }),
  cancelRequested: Type.Boolean(),
  worker: Type.Optional(Type.String({ description: 'Who holds it, or held it last.' })),
  leaseExpiresAt: Type.Optional(Timestamp()),
  progress: Type.Optional(JsonText({ description: 'What its worker last reported under this lease.' })),
  finishedAt: Type.Optional(Timestamp({ description: 'When it was completed, died or was cancelled.' })),
  result: Type.Optional(JsonText()),
  deadReason: Type.Optional(Type.Enum([...DEAD_REASONS])),
  deadFrom: Type.Optional(
    Type.Object(
      { queue: Type.String(), reason: Type.Enum([...DEAD_REASONS]) },
      { description: 'Where and why it died before it came to this queue.' },
    ),
  ),
  lastError: Type.Optional(LastError),
  attempts: Type.Optional(
    Type.Array(Attempt, { description: 'The latest ones, oldest first: at most 100, and 512 KiB of their errors.' }),
  ),
});
export type Job = Static<typeof Job>;
export type JobState = (typeof JOB_STATES)[number];

/** A job as `readJobs` selects it. */
export interface JobRow {
  readonly ordinal: number;
  readonly found: number;
  readonly id: string;
  readonly queue: string;
  readonly state: JobState;
  readonly hasBody: boolean;
  readonly kind: string | null;
  readonly payload: string | null;
  readonly payloadBytes: Buffer | null;
  readonly contentType: string | null;
  readonly headers: string | null;
  readonly rank: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly retry: RetryPolicy;
  readonly visibilityTimeout: number;
  readonly idempotencyKey: string | null;
  readonly createdAt: number | null;
  readonly runAt: number | null;
  readonly expiresAt: number | null;
  readonly releases: number;
  readonly cancelRequested: boolean;
  readonly worker: string | null;
  readonly epoch: number;
  readonly startedAt: number | null;
  readonly leaseExpiresAt: number | null;
  readonly progress: string | null;
  readonly endedAt: number | null;
  readonly result: string | null;
  readonly reason: (typeof DEAD_REASONS)[number] | null;
  readonly deadFrom: string | null;
  readonly deadFromReason: (typeof DEAD_REASONS)[number] | null;
  readonly errorAttempt: number | null;
  readonly errorOutcome: string | null;
  readonly error: string | null;
  readonly attempts: readonly AttemptRow[] | null;
}

interface AttemptRow {
  readonly attempt: number;
  readonly epoch: number;
  readonly worker: string | null;
  readonly startedAt: number;
  readonly endedAt: number;
  /** As the database has it, in lower case. */
  readonly outcome: string;
  readonly error: string | null;
}

/** Brings a row into the form of the message; `withAttempts` says whether it shows its attempts. */
export function toJob(row: JobRow, withAttempts: boolean): Job {
  return {
    id: row.id,
    queue: row.queue,
    state: row.state,
    headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
    priority: row.rank === 0 ? 0 : -row.rank,
    attempt: row.attempt,
    enqueuedAt: row.createdAt ?? timeOfId(row.id),
    releases: row.releases,
    cancelRequested: row.cancelRequested,
    worker: row.worker ?? undefined,
    leaseExpiresAt: row.leaseExpiresAt ?? undefined,
    progress: row.progress ?? undefined,
    finishedAt: row.endedAt ?? undefined,
    result: row.result ?? undefined,
    deadReason: row.reason ?? undefined,
    lastError: lastErrorOf(row),
    attempts: withAttempts ? attemptsOf(row) : undefined,
    ...(row.hasBody ? bodyOf(row) : {}),
  };
}

function bodyOf(row: JobRow): Partial<Job> {
  return {
    kind: row.kind ?? undefined,
    payload: row.payload ?? undefined,
    payloadBase64: row.payloadBytes ?? undefined,
    contentType: row.contentType ?? 'application/json',
    maxAttempts: row.maxAttempts,
    retry: row.retry,
    visibilityTimeout: row.visibilityTimeout,
    idempotencyKey: row.idempotencyKey ?? undefined,
    runAt: row.runAt ?? undefined,
    expiresAt: row.expiresAt ?? undefined,
    deadFrom:
      row.deadFrom === null || row.deadFromReason === null
        ? undefined
        : { queue: row.deadFrom, reason: row.deadFromReason },
  };
}

/** A UUID v7 begins with the milliseconds since 1970. */
function timeOfId(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) * 1000;
}

function lastErrorOf(row: JobRow): LastError | undefined {
  if (row.errorAttempt === null || row.errorOutcome === null) return undefined;
  const error = readAttemptError(row.errorOutcome, row.error);
  return error === undefined ? undefined : { ...error, attempt: row.errorAttempt };
}

function attemptsOf(row: JobRow): Static<typeof Attempt>[] {
  const ended = (row.attempts ?? []).map((attempt) => ({
    attempt: attempt.attempt,
    epoch: attempt.epoch,
    worker: attempt.worker ?? undefined,
    startedAt: attempt.startedAt,
    endedAt: attempt.endedAt,
    outcome: attempt.outcome.toUpperCase() as (typeof OUTCOMES)[number],
    error: readAttemptError(attempt.outcome, attempt.error),
  }));
  if (row.state !== 'completed' || row.startedAt === null || row.endedAt === null) return ended;
  const { attempt, epoch, startedAt, endedAt } = row;
  return [
    ...ended,
    { attempt, epoch, worker: row.worker ?? undefined, startedAt, endedAt, outcome: 'ACKED', error: undefined },
  ];
}
