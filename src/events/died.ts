import { formatTimestamp } from '../core/timestamp.js';
import { readAttemptError } from '../jobs/attempt-error.js';

const MESSAGE_LENGTH = 1_024;
const MARKER = '… [cut]';

/** What stands in an event of a death, as `record-deaths.sql` writes it. */
export interface Death {
  readonly kind: string | null;
  readonly attempts: number;
  readonly reason: string;
  readonly outcome: string | null;
  /** JSON text. */
  readonly error: string | null;
  /** Microseconds; null when the job had no body. */
  readonly enqueuedAt: number | null;
}

export interface DeadJob {
  readonly jobId: string;
  readonly queue: string;
  /** Microseconds. */
  readonly diedAt: number;
  readonly death: Death;
}

/** The payload of a dead job; absent when it is gone by now, or too large. */
export interface DeadPayload {
  readonly contentType: string;
  /** JSON text, when that is what it is. */
  readonly json: string | null;
  readonly bytes: Buffer | null;
  readonly isTooLarge: boolean;
}

/** The data of `job.dead`: JSON text. A payload that is JSON stands in it to the byte. */
export function diedData({ jobId, queue, diedAt, death }: DeadJob, payload?: DeadPayload): string {
  const error = death.outcome === null ? undefined : readAttemptError(death.outcome, death.error);
  const plain = JSON.stringify({
    jobId,
    queue,
    kind: death.kind ?? undefined,
    attempts: death.attempts,
    reason: death.reason,
    lastError: error === undefined ? undefined : { message: cut(error.message), type: error.type },
    enqueuedAt: death.enqueuedAt === null ? undefined : formatTimestamp(death.enqueuedAt),
    diedAt: formatTimestamp(diedAt),
  });
  return payload === undefined ? plain : `${plain.slice(0, -1)}${members(payload)}}`;
}

function members({ contentType, json, bytes, isTooLarge }: DeadPayload): string {
  const type = `,"contentType":${JSON.stringify(contentType)}`;
  if (isTooLarge) return `${type},"payloadLeftOut":true`;
  if (json !== null) return `${type},"payload":${json}`;
  return bytes === null ? type : `${type},"payloadBase64":"${bytes.toString('base64')}"`;
}

function cut(message: string): string {
  if (message.length <= MESSAGE_LENGTH) return message;
  return message.slice(0, MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '') + MARKER;
}
