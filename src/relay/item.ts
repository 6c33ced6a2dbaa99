import { isJsonType, JSON_TYPE } from '../core/content-type.js';
import { formatDuration, parseDuration } from '../core/duration.js';
import { checkJsonBytes } from '../core/payload.js';
import type { Row } from './outbox.js';

/** The most bytes that a request may have. */
export const MOST_BYTES = 8 * 1024 * 1024;

const OPENING = Buffer.from('{"jobs":[');
const COMMA = Buffer.from(',');
const CLOSING = Buffer.from(']}');

/** A row as one of the jobs of a batch, or why it can be none. */
export type Item = { readonly json: Buffer; readonly fault?: undefined } | { readonly fault: string };

/**
 * Writes a row as JSON. Its payload goes in to the byte and is checked to be one JSON value first, since it becomes a part of
 * the text around it; of a `delay`, what is left of it.
 */
export function itemOf(row: Row): Item {
  if (row.options === null) return tooLarge(row.cost);
  if (row.reserved) {
    return {
      fault: 'options must not hold queue, payload, payloadBase64 or idempotencyKey: they have columns of their own',
    };
  }
  const payload = payloadOf(row);
  if (payload.fault !== undefined) return payload;
  const members = [
    `"queue":${JSON.stringify(row.queue)}`,
    `"idempotencyKey":"${row.key}"`,
    ...(row.delay === null ? [] : [`"delay":${delayLeft(row.delay, row.age)}`]),
    ...(row.options === '{}' ? [] : [row.options.slice(1, -1)]),
  ];
  const json = Buffer.concat([Buffer.from(`{${members.join(',')}`), payload.json, Buffer.from('}')]);
  return batchBytes([json]) > MOST_BYTES ? tooLarge(batchBytes([json])) : { json };
}

/** The body of a request for these jobs. */
export function batchOf(items: readonly Buffer[]): Buffer {
  return Buffer.concat([OPENING, ...items.flatMap((item, index) => (index === 0 ? [item] : [COMMA, item])), CLOSING]);
}

function batchBytes(items: readonly Buffer[]): number {
  return items.reduce((sum, { length }) => sum + length + COMMA.length, OPENING.length + CLOSING.length);
}

function payloadOf({ payload, payloadBytes, contentType }: Row): Item {
  if (payload === null) return { json: base64Of(payloadBytes) };
  if (!isJsonType(contentType ?? JSON_TYPE)) return { json: base64Of(payload) };
  const fault = checkJsonBytes(payload);
  if (fault !== undefined) return { fault: `payload ${fault}` };
  return { json: Buffer.concat([Buffer.from(',"payload":'), payload]) };
}

function base64Of(bytes: Buffer | null): Buffer {
  return Buffer.from(bytes === null ? '' : `,"payloadBase64":"${bytes.toString('base64')}"`);
}

/** By the age of the row, so that the clocks of the two databases need not agree. What is no duration is left to Stint to refuse. */
function delayLeft(text: string, age: number): string {
  const delay: unknown = JSON.parse(text);
  const milliseconds = typeof delay === 'string' ? parseDuration(delay) : undefined;
  if (milliseconds === undefined) return text;
  return `"${formatDuration(Math.max(0, Math.round(milliseconds - age)))}"`;
}

function tooLarge(bytes: number): Item {
  return { fault: `it takes ${bytes} bytes: a request may have ${MOST_BYTES}` };
}
