import { createLocalJWKSet } from 'jose';
import { ServiceError } from '../errors.js';
import type { KeySource } from './key-source.js';

/** While there are no keys yet nobody with a token is served, so they are tried for sooner. */
const FIRST_COOL_DOWN_MS = 5_000;

/** Finds the key for a token's header; another object when the issuer has published other keys. */
export type Keys = ReturnType<typeof createLocalJWKSet>;

export interface KeySetParts {
  readonly source: KeySource;
  /** Milliseconds; may jump. */
  readonly now: () => number;
  /** Told the first error of an outage. */
  readonly onTrouble: (error: unknown) => void;
}

/**
 * The keys of one issuer, read when they are first needed.
 *
 * - At most one reading is under way; whoever needs one shares it.
 * - Two readings begin no closer than the source's cool-down, whatever tokens ask for and however the first one ended.
 * - A reading that fails changes nothing: the keys of the last that did not stay for as long as it takes.
 * - A reading that does not fail replaces them all, so a key that is published no longer is gone.
 */
export class KeySet {
  #keys: Keys | undefined;
  #published = '';
  #attemptedAt = -Infinity;
  #loadedAt = -Infinity;
  #loading: Promise<void> | undefined;
  #isTroubled = false;

  constructor(private readonly parts: KeySetParts) {}

  /** The keys at hand; undefined when there never were any. */
  get current(): Keys | undefined {
    return this.#keys;
  }

  /** Has the keys read again in the background when it is time. */
  keepFresh(): void {
    const { freshMs, coolDownMs } = this.parts.source;
    if (this.#isPast(this.#loadedAt, freshMs) && this.#isPast(this.#attemptedAt, coolDownMs)) void this.#load();
  }

  /**
   * The keys at hand, waited for only when there never were any.
   *
   * @throws ServiceError UNAVAILABLE when there never were any and they cannot be read
   */
  async ready(): Promise<Keys> {
    if (this.#keys === undefined) await this.#loadUnlessWithin(FIRST_COOL_DOWN_MS);
    else this.keepFresh();
    if (this.#keys !== undefined) return this.#keys;
    throw new ServiceError('UNAVAILABLE', 'the keys of the token’s issuer cannot be read at present', {
      retryAfter: FIRST_COOL_DOWN_MS / 1_000,
    });
  }

  /** Reads the keys again, unless within the cool-down, for a token that none of those at hand fits: the keys then at hand. */
  async renewed(): Promise<Keys | undefined> {
    await this.#loadUnlessWithin(this.parts.source.coolDownMs);
    return this.#keys;
  }

  async #loadUnlessWithin(milliseconds: number): Promise<void> {
    if (this.#loading !== undefined || this.#isPast(this.#attemptedAt, milliseconds)) await this.#load();
  }

  /** Never rejects. */
  #load(): Promise<void> {
    this.#loading ??= this.#loadOnce().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #loadOnce(): Promise<void> {
    const began = this.parts.now();
    this.#attemptedAt = began;
    try {
      const keys = await this.parts.source.load();
      this.#loadedAt = began;
      const published = JSON.stringify(keys);
      if (published !== this.#published) this.#keys = createLocalJWKSet({ keys: [...keys] });
      this.#published = published;
      if (keys.length === 0) throw new Error('the key set has no key that can be used');
      this.#isTroubled = false;
    } catch (error) {
      if (!this.#isTroubled) this.parts.onTrouble(error);
      this.#isTroubled = true;
    }
  }

  /** True too when the clock was set back, so that it never keeps keys from being read. */
  #isPast(since: number, milliseconds: number): boolean {
    const age = this.parts.now() - since;
    return age >= milliseconds || age < 0;
  }
}
