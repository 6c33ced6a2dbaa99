import type { IncomingMessage } from 'node:http';

const ALLOWED_HEADERS = 'authorization, content-type, idempotency-key, x-request-id, traceparent, tracestate';
/** Without their names in full a script sees none of them. */
const EXPOSED_HEADERS = [
  'x-request-id',
  'retry-after',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'ratelimit-policy',
].join(', ');
const MAX_AGE_SECONDS = '600';

/**
 * What browsers are told about calls by the scripts of other origins: those listed may call, with a bearer token that they bring
 * themselves. Never `access-control-allow-credentials`: nothing here goes by cookies.
 */
export class Cors {
  readonly #origins: ReadonlySet<string>;

  /** @param origins Exact, as browsers send them; checked before (STINT_CORS_ORIGINS). */
  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Adds to the headers of an answer, names and values by turns, what the caller's origin may know. */
  addTo(headers: (string | number)[], { headers: { origin } }: IncomingMessage): void {
    headers.push('vary', 'origin');
    if (origin === undefined || !this.#origins.has(origin)) return;
    headers.push('access-control-allow-origin', origin, 'access-control-expose-headers', EXPOSED_HEADERS);
  }

  /** What a browser is answered that asks whether a script may call this path; undefined when it may not, or nobody asks. */
  preflight({ method, headers }: IncomingMessage, methods: string): Readonly<Record<string, string>> | undefined {
    const { origin, 'access-control-request-method': asked } = headers;
    if (method !== 'OPTIONS' || asked === undefined || origin === undefined) return undefined;
    if (!this.#origins.has(origin)) return undefined;
    return {
      'access-control-allow-methods': methods,
      'access-control-allow-headers': ALLOWED_HEADERS,
      'access-control-max-age': MAX_AGE_SECONDS,
      'cache-control': 'no-store',
    };
  }
}
