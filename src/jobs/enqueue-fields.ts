import { createHash } from 'node:crypto';
import { type Static, type TObject, Type } from 'typebox';
import { isJsonType, JSON_TYPE } from '../core/content-type.js';
import { QUEUE_NAME } from '../core/named-queues.js';
import type { Context } from '../core/operation.js';
import { checkJsonBytes } from '../core/payload.js';
import { Bytes, Duration, JsonText, Timestamp } from '../core/wire.js';
import { ServiceError, invalidField } from '../errors.js';
import type { KnownQueue } from '../hotpath/queue-directory.js';
import { newJobId } from './job-id.js';
import { completeRetryPolicy, RetryPolicy } from './retry-policy.js';

const DAY_MS = 86_400_000;
export const MAX_AHEAD_MS = 366 * DAY_MS;
const DEFAULT_PAYLOAD_BYTES = 256 * 1024;
const HEADER_PAIRS = 64;
const HEADER_BYTES = 8 * 1024;
const BYTES_TYPE = 'application/octet-stream';

export const queueName = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
  'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}',
  [QUEUE_NAME]: true,
  description: 'Name of the queue.',
});

export const key = (description: string) =>
  Type.String({ 'x-min-bytes': 1, 'x-max-bytes': 255, 'x-no-control': true, description });

export const enqueueFields = {
  kind: Type.Optional(Type.String({ maxLength: 128, description: 'Which handler the job is for.' })),
  payload: Type.Optional(
    JsonText({ description: 'Any JSON value, kept to the byte. Absent is not the same as `null`.' }),
  ),
  payloadBase64: Type.Optional(Bytes({ description: 'The payload where its content type is not JSON.' })),
  contentType: Type.Optional(
    Type.String({
      maxLength: 255,
      pattern: '^[!-~]+/[!-~]+( *;[ -~]*)?$',
      'x-pattern-hint': 'type/subtype',
      description: 'Default `application/json`, or `application/octet-stream` with payloadBase64.',
    }),
  ),
  priority: Type.Optional(Type.Integer({ minimum: -1000, maximum: 1000, description: 'Higher first. Default 0.' })),
  delay: Type.Optional(
    Duration({ minimum: 0, maximum: MAX_AHEAD_MS, description: 'Not before this much time from now.' }),
  ),
  runAt: Type.Optional(
    Timestamp({ description: 'Not before this instant, at most 366 days ahead; the past means now.' }),
  ),
  maxAttempts: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: "Default: the queue's." })),
  retry: Type.Optional(RetryPolicy),
  visibilityTimeout: Type.Optional(
    Duration({ minimum: 1_000, maximum: DAY_MS / 2, description: "Default: the queue's." }),
  ),
  idempotencyKey: Type.Optional(key('Enqueues of one queue under the same key make one job.')),
  expiresAt: Type.Optional(
    Timestamp({ description: 'After this instant no attempt starts any more: the job is dead.' }),
  ),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'At most 64 pairs, 8 KiB in all; carried through to the worker.',
    }),
  ),
};

export type EnqueueFields = Static<TObject<typeof enqueueFields>>;

export interface Idempotency {
  readonly key: string;
  readonly fingerprint: Buffer;
  /** Milliseconds. */
  readonly window: number;
  /** How errors call it: `idempotencyKey`, or `jobs[3].idempotencyKey`. */
  readonly field: string;
}

/** One job on its way into the database. */
export interface EnqueueItem {
  readonly id: string;
  readonly queueId: number;
  readonly rank: number;
  readonly payload: string | Buffer | undefined;
  /** Bytes of payload and headers as REST shows them: what it takes up in a reply. */
  readonly size: number;
  readonly kind: string | undefined;
  /** Undefined means application/json. */
  readonly contentType: string | undefined;
  readonly isJson: boolean;
  readonly headers: string | undefined;
  readonly delay: number | undefined;
  readonly runAt: number | undefined;
  readonly maxAttempts: number | undefined;
  readonly visibilityTimeout: number | undefined;
  readonly retry: string | undefined;
  readonly expiresAt: number | undefined;
  readonly idempotency: Idempotency | undefined;
}

export interface ItemContext {
  readonly limits: PayloadLimits;
  readonly queue: Pick<KnownQueue, 'id' | 'maxPayloadBytes' | 'idempotencyWindow'>;
  /** The database's time, microseconds. */
  readonly now: number;
  /** What stands before a field's name in errors: empty, or `jobs[3].`. */
  readonly path: string;
  /** What a job carries that says nothing of a trace itself. */
  readonly trace?: Context<unknown>['traceHeaders'];
}

/** Bytes that a payload may have. */
interface PayloadLimits {
  /** Where the queue says nothing. */
  readonly tenant: number | undefined;
  /** Whatever the queue says. */
  readonly most: number;
}

/** What the caller's tenant and key allow. */
export function payloadLimits({ tenant, caller }: Pick<Context<unknown>, 'tenant' | 'caller'>): PayloadLimits {
  const ofTenant = tenant.limits.payloadBytes;
  return { tenant: ofTenant, most: Math.min(ofTenant ?? Infinity, caller.limits.payloadBytes ?? Infinity) };
}

/**
 * Makes the item, with its id, from what the caller gave.
 *
 * @throws ServiceError INVALID_ARGUMENT or PAYLOAD_TOO_LARGE naming the field and its limit
 */
export function toItem(fields: EnqueueFields, { limits, queue, now, path, trace }: ItemContext): EnqueueItem {
  const body = payloadOf(fields, path);
  const headers = headersOf(fields.headers, path, trace);
  const payloadBytes = body.payload === undefined ? 0 : Buffer.byteLength(body.payload);
  const limit = Math.min(queue.maxPayloadBytes ?? limits.tenant ?? DEFAULT_PAYLOAD_BYTES, limits.most);
  if (payloadBytes > limit) tooLarge(`${path}${body.field}`, `must be at most ${limit} bytes`);
  checkTimes(fields, now, path);
  return {
    id: newJobId(),
    queueId: queue.id,
    rank: -(fields.priority ?? 0),
    payload: body.payload,
    size:
      (body.isJson ? payloadBytes : Math.ceil(payloadBytes / 3) * 4) +
      (headers === undefined ? 0 : Buffer.byteLength(headers)),
    kind: fields.kind,
    contentType: body.contentType,
    isJson: body.isJson,
    headers,
    delay: fields.delay,
    runAt: fields.runAt,
    maxAttempts: fields.maxAttempts,
    visibilityTimeout: fields.visibilityTimeout,
    retry: fields.retry === undefined ? undefined : JSON.stringify(completeRetryPolicy(fields.retry)),
    expiresAt: fields.expiresAt,
    idempotency:
      fields.idempotencyKey === undefined
        ? undefined
        : {
            key: fields.idempotencyKey,
            fingerprint: fingerprint(fields.kind, body),
            window: queue.idempotencyWindow,
            field: `${path}idempotencyKey`,
          },
  };
}

interface Body {
  readonly field: 'payload' | 'payloadBase64';
  readonly payload: string | Buffer | undefined;
  readonly contentType: string | undefined;
  readonly isJson: boolean;
}

function payloadOf({ payload, payloadBase64, contentType }: EnqueueFields, path: string): Body {
  const type = contentType ?? (payloadBase64 === undefined ? JSON_TYPE : BYTES_TYPE);
  const isJson = isJsonType(type);
  const stored = type === JSON_TYPE ? undefined : type;
  if (payloadBase64 === undefined) {
    if (payload !== undefined && !isJson) {
      throw invalidField(`${path}payload`, `takes JSON; with the contentType ${type} give payloadBase64`);
    }
    return { field: 'payload', payload, contentType: stored, isJson };
  }
  const fault = isJson ? checkJsonBytes(payloadBase64) : undefined;
  if (fault !== undefined) throw invalidField(`${path}payloadBase64`, `with a JSON contentType ${fault}`);
  return { field: 'payloadBase64', payload: payloadBase64, contentType: stored, isJson };
}

function headersOf(given: Headers | undefined, path: string, trace: ItemContext['trace']): string | undefined {
  if (given === undefined) return trace === undefined ? undefined : JSON.stringify(trace);
  const pairs = Object.keys(given).length;
  if (pairs > HEADER_PAIRS) throw invalidField(`${path}headers`, `must have at most ${HEADER_PAIRS} pairs`);
  const bytes = bytesOf(given);
  if (bytes > HEADER_BYTES) tooLarge(`${path}headers`, `must be at most ${HEADER_BYTES} bytes in all`);
  const headers = trace === undefined || namesTrace(given) ? given : { ...given, ...trace };
  // A trace never takes the place of a header, and keeps no job from being stored.
  const added = trace?.tracestate === undefined ? 1 : 2;
  const fits = headers === given || (pairs + added <= HEADER_PAIRS && bytesOf(headers) <= HEADER_BYTES);
  return JSON.stringify(fits ? headers : given);
}

type Headers = Readonly<Record<string, string | undefined>>;

function namesTrace(headers: Headers): boolean {
  return Object.keys(headers).some((name) => /^trace(parent|state)$/i.test(name));
}

function bytesOf(headers: Headers): number {
  return Object.entries(headers).reduce(
    (sum, [name, value = '']) => sum + Buffer.byteLength(name) + Buffer.byteLength(value),
    0,
  );
}

function checkTimes({ runAt, delay, expiresAt }: EnqueueFields, now: number, path: string): void {
  if (runAt !== undefined && runAt > now + MAX_AHEAD_MS * 1_000)
    throw invalidField(`${path}runAt`, 'must be at most 366 days ahead');
  if (expiresAt === undefined) return;
  if (expiresAt <= now) throw invalidField(`${path}expiresAt`, 'must be after now');
  const start = runAt ?? now + (delay ?? 0) * 1_000;
  if (expiresAt <= start) {
    const other = runAt === undefined ? 'delay' : 'runAt';
    throw new ServiceError('INVALID_ARGUMENT', `${path}expiresAt must be after ${path}${other}`, {
      fields: [
        { field: `${path}expiresAt`, message: `must be after ${other}` },
        { field: `${path}${other}`, message: 'must be before expiresAt' },
      ],
    });
  }
}

function fingerprint(kind: string | undefined, { payload, contentType }: Body): Buffer {
  const hash = createHash('sha256');
  for (const part of [kind, contentType, payload]) {
    // Lengths keep neighbours apart, and absent apart from empty.
    hash.update(part === undefined ? '-:' : `${Buffer.byteLength(part)}:`);
    if (part !== undefined) hash.update(part);
  }
  return hash.digest().subarray(0, 16);
}

function tooLarge(field: string, message: string): never {
  throw new ServiceError('PAYLOAD_TOO_LARGE', `${field} ${message}`, { fields: [{ field, message }] });
}
