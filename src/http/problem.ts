import { retryAfter } from '../core/retry-after.js';
import { ERROR_CODES, type ErrorCode, ServiceError } from '../errors.js';
import type { Answer } from './exchange.js';

export const PROBLEM_TYPE = 'application/problem+json; charset=utf-8';

/** What REST says of an error: an RFC 9457 document and the headers that go with its code. */
export function problemOf(error: ServiceError, requestId: string): Answer {
  const { http: status, title } = ERROR_CODES[error.code];
  const body = JSON.stringify({
    ...error.extra,
    type: typeOf(error.code),
    title,
    status,
    detail: error.code === 'INTERNAL' ? 'internal error' : error.message,
    code: error.code,
    requestId,
    ...(error.fields.length > 0 && { errors: error.fields }),
  });
  const headers: Record<string, string> = { 'content-type': PROBLEM_TYPE, 'cache-control': 'no-store' };
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (status === 429 || status === 503) headers['retry-after'] = String(retryAfter(error.retryAfter));
  return { status, headers, body };
}

export function typeOf(code: ErrorCode): string {
  return `urn:stint:error:${code}`;
}
