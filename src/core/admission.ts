import type { ServiceError } from '../errors.js';
import type { Caller } from './operation.js';

/** Where a caller stands at the limit that is nearest. */
export interface RateState {
  /** Calls a second. */
  readonly limit: number;
  /** Calls that may come at once. */
  readonly remaining: number;
  /** Whole seconds until the whole limit is there again. */
  readonly reset: number;
}

/** What lasts longer than its turn, and is counted. */
export type LastingKind = 'parkedLeases' | 'streams';

/** What callers may do, by the limits of their tenants and keys. */
export interface Admission {
  /** Takes a call out of the allowance; `told` learns where the caller stands when it has a limit, also when this throws RATE_LIMITED. */
  request(caller: Caller, told: { rate?: RateState | undefined }): void;
  /** Throws what `jobs` would throw for any number of jobs; takes nothing. */
  mayStore(caller: Caller): void;
  /**
   * Takes jobs that are about to be stored out of the allowance; answers what is to be told once whether they were, or may have been:
   * else they are given back. Throws RATE_LIMITED and QUOTA_EXCEEDED.
   */
  jobs(caller: Caller, count: number): (stored: boolean) => void;
  /**
   * Begins what lasts; `end` is told when the credential ends meanwhile, with what to tell the caller. Answers what ends it.
   * Throws QUOTA_EXCEEDED.
   */
  begin(caller: Caller, kind: LastingKind, end: (error: ServiceError) => void): () => void;
}
