import type { JWTPayload } from 'jose';
import { ID_OR_NAME } from '../core/names.js';
import type { Scope } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { JwtIssuer } from './jwt-issuer.js';

/** Those a token can give. What is outside of any tenant (`admin`) is for keys alone. */
const SCOPES: ReadonlySet<string> = new Set<Scope>(['enqueue', 'work', 'read', 'manage', 'tick']);
const TENANT = new RegExp(ID_OR_NAME);
const LONGEST_SUBJECT = 256;

/** What a token says, in our terms. */
export interface TokenClaims {
  /** For people to read, at most 256 characters; empty when it has none. */
  readonly subject: string;
  /** A tenant's name or id; whether there is such a tenant is not known here. */
  readonly tenant: string;
  /** Never `admin`; may be none. */
  readonly scopes: ReadonlySet<Scope>;
  /** From when on it is refused, its issuer's leeway included. Milliseconds since 1970, as of `Date.now()`. */
  readonly expiresAt: number;
}

/**
 * What the claims of a token say whose signature, issuer, audience, `exp` and `nbf` hold at `now`.
 *
 * @throws ServiceError UNAUTHENTICATED
 */
export function readClaims(claims: JWTPayload, issuer: JwtIssuer, now: number): TokenClaims {
  const { iat, sub } = claims;
  if (iat !== undefined && iat > Math.floor(now / 1_000) + issuer.leewaySeconds) {
    throw new ServiceError('UNAUTHENTICATED', 'the token is not valid yet: it was issued (iat) later than now');
  }
  return {
    subject: typeof sub === 'string' ? printable(sub.slice(0, LONGEST_SUBJECT)) : '',
    tenant: tenantOf(claims, issuer.tenantClaim),
    scopes: scopesOf(claim(claims, issuer.scopeClaim), issuer.scopePrefix),
    expiresAt: expiryOf(claims, issuer.leewaySeconds),
  };
}

function tenantOf(claims: JWTPayload, name: string): string {
  const tenant = claim(claims, name);
  if (typeof tenant === 'string' && TENANT.test(tenant)) return tenant;
  throw new ServiceError('UNAUTHENTICATED', `the token must name one tenant, by name or id, in its claim ${name}`);
}

function scopesOf(value: unknown, prefix: string): Set<Scope> {
  const words: readonly unknown[] = typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value : [];
  const scopes = new Set<Scope>();
  for (const word of words) {
    if (typeof word !== 'string' || !word.startsWith(prefix)) continue;
    const scope = word.slice(prefix.length);
    if (isScope(scope)) scopes.add(scope);
  }
  return scopes;
}

function isScope(word: string): word is Scope {
  return SCOPES.has(word);
}

/** Whole seconds upwards: times are compared with a clock of whole seconds. */
function expiryOf({ exp }: JWTPayload, leewaySeconds: number): number {
  const expiry = exp === undefined ? NaN : Math.ceil(exp + leewaySeconds) * 1_000;
  if (Number.isSafeInteger(expiry)) return expiry;
  throw new ServiceError('UNAUTHENTICATED', 'the token must say when it expires (exp), in seconds since 1970');
}

/** Never what every object has, such as `constructor`. */
function claim(claims: JWTPayload, name: string): unknown {
  return Object.hasOwn(claims, name) ? claims[name] : undefined;
}

/** Control characters and halves of a pair, which no log or database should get from outside, replaced. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}]/gu, '\uFFFD');
}
