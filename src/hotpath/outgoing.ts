import type { Departure } from '../core/departure.js';

/** One POST to an endpoint that a tenant has named. */
export interface Outgoing {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Ends it early. */
  readonly departure?: Departure;
}

/** What came of it: an answer's status, or why there was none, in one of few words. */
export type OutgoingAnswer =
  | {
      readonly status: number;
      /** Milliseconds that the answer asks to be left alone for. */
      readonly retryAfter: number | undefined;
    }
  | { readonly error: OutgoingError };

/**
 * `not reachable` says the same of an address that is not allowed, a name that is not known and a port that is closed, so that nobody
 * finds out about the network around the service.
 */
export type OutgoingError = 'not reachable' | 'timeout' | 'tls' | 'no answer' | 'ended';

/** What reaches the endpoints of tenants, and nothing that is not theirs to reach. */
export interface Poster {
  /** What is wrong with a URL, as far as it can be told from the text; completes "url …". */
  faultIn(url: string): string | undefined;
  /** Posts; takes at most 10 s. Never throws. */
  post(outgoing: Outgoing): Promise<OutgoingAnswer>;
  /** The same for somebody who waits for it. Throws UNAVAILABLE when too many do. */
  tryOut(outgoing: Outgoing): Promise<OutgoingAnswer>;
}
