import assert from 'node:assert/strict';
import { PROBE_PATHS } from '../../src/http/probes.js';
import type { Answer } from './service.js';

/**
 * Why a request of the suites over gRPC goes over REST: nothing but a page has this method and path; what it says fits into no message; a
 * nack's error is not the object that proto has for it, and is kept all the same.
 */
export type RestAlone = 'no operation' | 'not a message' | 'error of another form';

const PAGES: ReadonlySet<string> = new Set([...PROBE_PATHS, '/openapi.json', '/docs']);
/** Of a request itself, whatever the service holds. */
const REFUSALS: ReadonlySet<unknown> = new Set(['INVALID_ARGUMENT', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE']);

/**
 * Fails for an answer that shows that the request should have gone over gRPC: it was understood. So a new form of request that is not
 * translated fails the suites over gRPC, and does not run over REST in silence.
 *
 * @param request method, path and query
 */
export function assertRestAlone(why: RestAlone, request: string, answer: Answer): void {
  assert.ok(
    isRightly(why, request, answer),
    `${request} is not translated for gRPC (${why}), yet REST took it: ${answer.text}`,
  );
}

function isRightly(why: RestAlone, request: string, { status, body }: Answer): boolean {
  switch (why) {
    case 'no operation':
      return status === 404 || status === 405 || PAGES.has(request.split(/[ ?]/)[1]!);
    case 'not a message':
      return REFUSALS.has(body?.code) || hasInvalidItem(body);
    case 'error of another form':
      return true;
  }
}

/** Of a batch of settles, where a faulty item fails alone. */
function hasInvalidItem(body: any): boolean {
  const { results, acks, nacks, releases, heartbeats } = { ...body, ...body?.settled };
  return [results, acks, nacks, releases, heartbeats].flat().some((item) => item?.outcome === 'INVALID');
}
