import { errors, type JWTPayload, jwtVerify, type JWTVerifyOptions } from 'jose';
import type { JwtIssuer } from './jwt-issuer.js';
import type { Keys, KeySet } from './key-set.js';

/** A token that does not name its key is tried with no more keys than this. */
const MOST_TRIED = 8;

export interface SignedToken {
  readonly token: string;
  /** Whether its header names a key. */
  readonly namesKey: boolean;
  readonly issuer: JwtIssuer;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export interface Signed {
  readonly claims: JWTPayload;
  /** Those it was verified with. */
  readonly keys: Keys;
}

/**
 * Verifies the signature and then issuer, audience and those times that the token has. A token that fits none of the keys at hand has them read again, for
 * they may have been exchanged.
 *
 * @throws ServiceError UNAVAILABLE, or jose's errors for a token that does not hold
 */
export async function verifySigned(signed: SignedToken, keySet: KeySet): Promise<Signed> {
  const keys = await keySet.ready();
  try {
    return { claims: await verifyWith(keys, signed), keys };
  } catch (error) {
    if (!isOfOtherKey(error, signed)) throw error;
    const renewed = await keySet.renewed();
    if (renewed === undefined || renewed === keys) throw error;
    return { claims: await verifyWith(renewed, signed), keys: renewed };
  }
}

function isOfOtherKey(error: unknown, { namesKey }: SignedToken): boolean {
  if (error instanceof errors.JWKSNoMatchingKey) return true;
  return !namesKey && error instanceof errors.JWSSignatureVerificationFailed;
}

async function verifyWith(keys: Keys, signed: SignedToken): Promise<JWTPayload> {
  const options = optionsOf(signed);
  try {
    return (await jwtVerify(signed.token, keys, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    return await verifyWithAny(error, signed.token, options);
  }
}

async function verifyWithAny(
  candidates: errors.JWKSMultipleMatchingKeys,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  let tried = 0;
  for await (const key of candidates) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      // The signature is checked before the claims, so any other error is of a token that this key has signed.
      if (!(error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError)) throw error;
    }
    if (++tried === MOST_TRIED) break;
  }
  throw new errors.JWSSignatureVerificationFailed();
}

function optionsOf({ issuer, now }: SignedToken): JWTVerifyOptions {
  return {
    algorithms: [...issuer.algorithms],
    issuer: issuer.issuer,
    audience: [...issuer.audiences],
    clockTolerance: issuer.leewaySeconds,
    currentDate: new Date(now),
  };
}
