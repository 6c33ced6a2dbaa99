import { scanObject } from '../core/body-scan.js';
import { compileDecoder } from '../core/decode.js';
import { AttemptError } from './attempt-error.js';

const MESSAGE_BYTES = 4 * 1024;
const TYPE_BYTES = 256;
const DETAIL_BYTES = 16 * 1024;
const MARKER = '… [cut]';

const shape = compileDecoder(AttemptError).body;

/**
 * Makes of whatever a worker reports the JSON text that is stored: a nack never fails for its error. What is too long is cut
 * and marked; what no database stores as text (NUL, lone surrogates) stays as JSON's own escapes.
 *
 * @param given valid JSON text; not an object means that it is the message
 */
export function storableError(given: string): string {
  const value: unknown = JSON.parse(given);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return JSON.stringify({ message: cut(wordsOf(value), MESSAGE_BYTES) });
  const error = value as Record<string, unknown>;
  // A repeated key is no reason to refuse a failure report: then the detail is written anew from the value.
  const exact = scanObject({ text: given, at: 0 }, shape, error) === undefined;
  const message = JSON.stringify(cut(wordsOf(error.message), MESSAGE_BYTES));
  const type =
    error.type === undefined || error.type === null
      ? ''
      : `,"type":${JSON.stringify(cut(wordsOf(error.type), TYPE_BYTES))}`;
  if (error.detail === undefined) return `{"message":${message}${type}}`;
  const detail = exact ? (error.detail as string) : JSON.stringify(error.detail);
  const kept = Buffer.byteLength(detail) > DETAIL_BYTES ? JSON.stringify(cut(detail, DETAIL_BYTES)) : detail;
  return `{"message":${message}${type},"detail":${kept}}`;
}

function wordsOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** At most `bytes` of UTF-8 with the marker, never through a character. */
function cut(text: string, bytes: number): string {
  if (text.length <= bytes && Buffer.byteLength(text) <= bytes) return text;
  const kept = Buffer.from(text.slice(0, bytes)).subarray(0, bytes - Buffer.byteLength(MARKER));
  let end = kept.length;
  while (end > 0 && (kept[end - 1]! & 0b1100_0000) === 0b1000_0000) end -= 1;
  if (end > 0 && kept[end - 1]! >= 0b1100_0000) end -= 1;
  return kept.toString('utf8', 0, end) + MARKER;
}
