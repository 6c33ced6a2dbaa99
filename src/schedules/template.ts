import type { Static, TObject } from 'typebox';
import type { Context } from '../core/operation.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import type { KnownQueue } from '../hotpath/queue-directory.js';
import { type EnqueueItem, payloadLimits, toItem } from '../jobs/enqueue-fields.js';
import { FIRE_HEADERS, fireHeadersSize } from './fire-headers.js';
import type { templateFields } from './schedule-fields.js';

/** What a schedule's jobs are made of, as they are stored. */
export type Template = Omit<EnqueueItem, 'id' | 'queueId' | 'idempotency' | 'delay' | 'runAt' | 'expiresAt'>;

/** A queue that is about to be made has the default settings. */
const NEW_QUEUE = { id: 0, maxPayloadBytes: null, idempotencyWindow: 0 };

/**
 * Checks what a caller gave as an enqueue does.
 *
 * @param about the queue, if it is there, and the database's time in microseconds
 * @throws ServiceError INVALID_ARGUMENT or PAYLOAD_TOO_LARGE naming the field and its limit
 */
export function templateOf(
  context: Context<Engine>,
  input: Static<TObject<typeof templateFields>> & { readonly name: string },
  about: { readonly queue: KnownQueue | undefined; readonly now: number },
): Template {
  const { kind, payload, payloadBase64, contentType, priority, maxAttempts, retry, visibilityTimeout, headers } = input;
  const taken = Object.keys(headers ?? {}).find((name) => FIRE_HEADERS.has(name.toLowerCase()));
  if (taken !== undefined) throw invalidField('headers', `must not name ${taken}, which the schedule sets itself`);
  const item = toItem(
    { kind, payload, payloadBase64, contentType, priority, maxAttempts, retry, visibilityTimeout, headers },
    { limits: payloadLimits(context), queue: about.queue ?? NEW_QUEUE, now: about.now, path: '' },
  );
  const own = item.headers === '{}' ? undefined : item.headers;
  // Joined to headers of one's own by a comma in place of the braces.
  const size = item.size + fireHeadersSize(input.name) - (own === undefined ? (item.headers?.length ?? 0) : 1);
  return { ...item, size, headers: own };
}
