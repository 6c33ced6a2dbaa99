import { Type, type Static } from 'typebox';
import { Bytes, Duration, JsonText, Timestamp } from '../core/wire.js';
import { LastError, readAttemptError } from './attempt-error.js';
import { formatLeaseToken } from './lease-token.js';

const ANY = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

/** A job as its worker gets it. */
export const LeasedJob = Type.Object({
  id: Type.String({ format: 'uuid' }),
  queue: Type.String(),
  kind: Type.Optional(Type.String()),
  payload: Type.Optional(JsonText()),
  payloadBase64: Type.Optional(Bytes()),
  contentType: Type.String(),
  headers: Type.Record(Type.String(), Type.String()),
  priority: Type.Integer(),
  attempt: Type.Integer({ description: 'From 1.' }),
  maxAttempts: Type.Integer(),
  enqueuedAt: Timestamp(),
  runAt: Timestamp(),
  leaseToken: Type.String({ description: 'Proves the lease; opaque.' }),
  leaseEpoch: Type.Integer({ description: 'Only rises for a job: fence your own writes with it.' }),
  leaseExpiresAt: Timestamp(),
  visibilityTimeout: Duration({ ...ANY, description: 'The one given to this lease.' }),
  lastError: Type.Optional(LastError),
});
export type LeasedJob = Static<typeof LeasedJob>;

/** A leased job as the claim statement returns it. */
export interface LeasedRow {
  readonly rank: number;
  readonly jobId: string;
  readonly queueId: number;
  readonly queue: string;
  readonly leaseId: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly duration: number;
  readonly leaseExpiresAt: number;
  readonly kind: string | null;
  readonly payload: string | null;
  readonly payloadBytes: Buffer | null;
  readonly contentType: string | null;
  readonly headers: string | null;
  readonly enqueuedAt: number;
  readonly runAt: number;
  readonly error: string | null;
  readonly errorOutcome: string | null;
  readonly errorAttempt: number | null;
}

export function toLeasedJob(row: LeasedRow): LeasedJob {
  const error = row.errorOutcome === null ? undefined : readAttemptError(row.errorOutcome, row.error);
  return {
    id: row.jobId,
    queue: row.queue,
    kind: row.kind ?? undefined,
    payload: row.payload ?? undefined,
    payloadBase64: row.payloadBytes ?? undefined,
    contentType: row.contentType ?? 'application/json',
    headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
    priority: row.rank === 0 ? 0 : -row.rank,
    attempt: row.attempt,
    maxAttempts: row.maxAttempts,
    enqueuedAt: row.enqueuedAt,
    runAt: row.runAt,
    leaseToken: formatLeaseToken(row),
    leaseEpoch: row.epoch,
    leaseExpiresAt: row.leaseExpiresAt,
    visibilityTimeout: row.duration,
    lastError: error === undefined ? undefined : { ...error, attempt: row.errorAttempt! },
  };
}
