import { decodeJwt, decodeProtectedHeader, errors } from 'jose';
import type { Eventual } from '../core/eventual.js';
import { ServiceError } from '../errors.js';
import type { JwtIssuer } from './jwt-issuer.js';
import { type Keys, KeySet } from './key-set.js';
import { createKeySource } from './key-source.js';
import { hashSecret } from './secret.js';
import { readClaims, type TokenClaims } from './token-claims.js';
import { type Signed, type SignedToken, verifySigned } from './token-signature.js';

/** The third part is empty in a token without a signature, which is refused as a token. */
const FORM = /^[\w-]+\.[\w-]+\.[\w-]*$/;
const LONGEST = 8_192;
const REMEMBERED_MS = 300_000;
const MOST_REMEMBERED = 10_000;

export interface TokensOptions {
  readonly issuers: readonly JwtIssuer[];
  /** Told when an issuer's keys cannot be read, once until they can. */
  readonly onTrouble: (issuer: string, error: unknown) => void;
  readonly fetch?: typeof globalThis.fetch;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A token whose signature and claims hold. */
export interface VerifiedToken extends TokenClaims {
  readonly issuer: string;
}

interface Accepted {
  readonly issuer: JwtIssuer;
  readonly keySet: KeySet;
}

interface Remembered {
  readonly verified: VerifiedToken;
  readonly keySet: KeySet;
  readonly keys: Keys;
  readonly until: number;
}

/** Whether a credential has a token's form. No secret of an API key has it. */
export function looksLikeToken(secret: string): boolean {
  return FORM.test(secret);
}

/**
 * Tokens (JWT) of the issuers that the configuration names. A verified one is remembered by its hash, so that it costs one
 * signature check in 5 minutes; it is verified anew as soon as its issuer's keys have changed. What is remembered is bounded, and
 * refused tokens are not, so that a flood of them drives nothing out.
 */
export class Tokens {
  readonly #issuers: ReadonlyMap<string, Accepted>;
  readonly #remembered = new Map<string, Remembered>();
  readonly #now: () => number;

  constructor({ issuers, onTrouble, fetch = globalThis.fetch, now = Date.now }: TokensOptions) {
    this.#now = now;
    const accepted = issuers.map((issuer): [string, Accepted] => {
      const tell = (error: unknown): void => onTrouble(issuer.issuer, error);
      const source = createKeySource(issuer.jwks, fetch);
      return [issuer.issuer, { issuer, keySet: new KeySet({ source, now, onTrouble: tell }) }];
    });
    this.#issuers = new Map(accepted);
  }

  /**
   * What a token says, at once when it is remembered. `hash` is its SHA-256, for who has it already.
   *
   * @throws ServiceError UNAUTHENTICATED for a token that does not hold, in words for its bearer; UNAVAILABLE when the keys of
   * its issuer were never had and cannot be read now
   */
  verify(token: string, hash: Buffer = hashSecret(token)): Eventual<VerifiedToken> {
    const id = hash.toString('latin1');
    const found = this.#remembered.get(id);
    if (found === undefined) return this.#verify(id, token);
    found.keySet.keepFresh();
    if (found.until > this.#now() && found.keys === found.keySet.current) return found.verified;
    this.#remembered.delete(id);
    return this.#verify(id, token);
  }

  async #verify(id: string, token: string): Promise<VerifiedToken> {
    const now = this.#now();
    const { issuer, keySet, namesKey } = this.#read(token);
    const { claims, keys } = await heldOrRefused({ token, namesKey, issuer, now }, keySet);
    const verified = { issuer: issuer.issuer, ...readClaims(claims, issuer, now) };
    this.#remember(id, { verified, keySet, keys, until: Math.min(verified.expiresAt, now + REMEMBERED_MS) });
    return verified;
  }

  /** What a token says of itself before anything is verified: it decides which rules it is held to, and no more. */
  #read(token: string): Accepted & Pick<SignedToken, 'namesKey'> {
    if (token.length > LONGEST) throw refused(`the token is longer than ${LONGEST} characters`);
    const { header, claims } = decoded(token);
    const accepted = this.#issuers.get(claims.iss ?? '');
    if (accepted === undefined) throw refused('the token’s issuer (iss) is not one that this service accepts');
    const { algorithms } = accepted.issuer;
    if (!(algorithms as readonly unknown[]).includes(header.alg)) {
      throw refused('the token’s algorithm (alg) is not one that is accepted from its issuer');
    }
    if (Object.hasOwn(header, 'crit')) throw refused('the token asks for extensions (crit), none of which is known');
    return { ...accepted, namesKey: header.kid !== undefined };
  }

  #remember(id: string, entry: Remembered): void {
    this.#remembered.delete(id);
    if (this.#remembered.size >= MOST_REMEMBERED) this.#remembered.delete(this.#remembered.keys().next().value!);
    this.#remembered.set(id, entry);
  }
}

function decoded(token: string) {
  try {
    if (FORM.test(token)) return { header: decodeProtectedHeader(token), claims: decodeJwt(token) };
  } catch (error) {
    throw refused('the token is not a JSON Web Token', error);
  }
  throw refused('the token is not a JSON Web Token in three parts');
}

async function heldOrRefused(signed: SignedToken, keySet: KeySet): Promise<Signed> {
  try {
    return await verifySigned(signed, keySet);
  } catch (error) {
    throw error instanceof ServiceError ? error : refused(reasonOf(error), error);
  }
}

/** Why jose does not take a token, in words for its bearer. */
function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'the token has expired';
  if (error instanceof errors.JWKSNoMatchingKey)
    return 'the token is signed with a key that its issuer does not publish';
  if (!(error instanceof errors.JWTClaimValidationFailed)) return 'the token’s signature does not hold';
  if (error.claim === 'aud') return 'the token is for another audience (aud)';
  if (error.claim === 'nbf' && error.reason === 'check_failed') return 'the token is not valid yet (nbf)';
  if (error.claim === 'exp') return 'the token must say when it expires (exp), in seconds since 1970';
  return `the token’s claim ${error.claim} is not what it should be`;
}

function refused(reason: string, cause?: unknown): ServiceError {
  return new ServiceError('UNAUTHENTICATED', reason, { cause });
}
