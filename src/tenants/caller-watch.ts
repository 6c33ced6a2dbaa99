import type { Caller } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { KnownKeys } from './known-keys.js';
import type { KnownTenants } from './known-tenants.js';

type End = (error: ServiceError) => void;

/**
 * Whether callers whose calls last are still who they were: a parked lease and a stream end when their key is revoked or has
 * expired, their token has run out, or their tenant is suspended or deleted.
 */
export class CallerWatch {
  readonly #ends = new Map<Caller, Set<End>>();
  #checking = false;
  #wanted = false;

  constructor(
    private readonly keys: KnownKeys,
    private readonly tenants: KnownTenants,
  ) {}

  /** From now on `end` is told when the caller's credential has ended. Answers what to call when that is of no interest any more. */
  watch(caller: Caller, end: End): () => void {
    let ends = this.#ends.get(caller);
    if (ends === undefined) this.#ends.set(caller, (ends = new Set()));
    ends.add(end);
    return () => {
      ends.delete(end);
      if (ends.size === 0 && this.#ends.get(caller) === ends) this.#ends.delete(caller);
    };
  }

  /** Something has changed: looks at all of them again, once for all that is said while it looks. What fails is done in the regular turn. */
  checkSoon(): void {
    this.#wanted = true;
    if (this.#checking || this.#ends.size === 0) return;
    this.#checking = true;
    void this.#checkWhileWanted()
      .catch(() => undefined)
      .finally(() => (this.#checking = false));
  }

  /**
   * Looks at all of them again, in one query or two; answers how many calls were ended.
   *
   * @throws ServiceError UNAVAILABLE
   */
  async check(): Promise<number> {
    const counts = await Promise.all(
      [...this.#ends].map(async ([caller, ends]) => {
        const error = await this.#endOf(caller);
        if (error === undefined) return 0;
        const told = [...ends];
        for (const end of told) end(error);
        return told.length;
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  async #checkWhileWanted(): Promise<void> {
    while (this.#wanted) {
      this.#wanted = false;
      await this.check();
    }
  }

  async #endOf(caller: Caller): Promise<ServiceError | undefined> {
    const { kind, expiresAt, tenant } = caller;
    if (kind === 'token' && expiresAt !== undefined && expiresAt <= Date.now()) {
      return new ServiceError('UNAUTHENTICATED', 'the token has expired');
    }
    if (kind === 'key') return errorIn(await this.keys.again(caller));
    return tenant === undefined ? undefined : errorIn(await this.tenants.again(tenant.id));
  }
}

function errorIn(verdict: unknown): ServiceError | undefined {
  return verdict instanceof ServiceError ? verdict : undefined;
}
