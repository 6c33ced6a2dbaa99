import { timingSafeEqual } from 'node:crypto';
import type { Eventual } from '../core/eventual.js';
import type { Caller, Tenant } from '../core/operation.js';
import type { CredentialMemory, Presented } from '../core/presented.js';
import { ServiceError } from '../errors.js';
import type { KnownKeys, Verdict } from './known-keys.js';
import type { KnownTenants } from './known-tenants.js';
import { hashSecret } from './secret.js';
import { looksLikeToken, type Tokens, type VerifiedToken } from './tokens.js';

const BEARER = /^bearer +(\S+) *$/i;
const LONGEST = 8_192 + 16;

export interface AuthenticateParts {
  readonly keys: KnownKeys;
  readonly tenants: KnownTenants;
  readonly tokens: Tokens;
  /** SHA-256 of the root keys that count at the moment; none lets nobody in. */
  readonly rootHashes: () => readonly Buffer[];
}

export type Authenticate = (authorization: string | undefined, memory: CredentialMemory) => Eventual<Caller>;

/**
 * Tells who calls, by the `Authorization` header or metadata: `Bearer` with an API key, a token of a configured issuer, or a
 * root key. `memory` is the connection's. It throws UNAUTHENTICATED, in the same words whether a key is unknown, expired or revoked;
 * PERMISSION_DENIED when the tenant is suspended; UNAVAILABLE when the database, or the issuer whose keys are not known yet, is away.
 */
export function createAuthenticate({ keys, tenants, tokens, rootHashes }: AuthenticateParts): Authenticate {
  return function authenticate(authorization, memory) {
    const last = memory.presented;
    const presented = last !== undefined && last.authorization === authorization ? last : present(authorization);
    memory.presented = presented;
    const remembered = keys.remembered(presented);
    if (remembered !== undefined) return remembered;
    const root = rootHashes().map((hash) => timingSafeEqual(presented.hash, hash));
    if (root.includes(true)) return ROOT;
    if (looksLikeToken(presented.secret)) return byToken(presented, tokens, tenants);
    const found = keys.find(presented);
    return found instanceof Promise ? found.then(admitted) : admitted(found);
  };
}

const ROOT: Caller = {
  kind: 'root',
  id: 'root',
  name: 'root',
  secretHash: undefined,
  scopes: new Set(['admin']),
  queues: undefined,
  limits: {},
  expiresAt: undefined,
  tenant: undefined,
};

function admitted(verdict: Verdict): Caller {
  if (verdict instanceof ServiceError) throw verdict;
  return verdict;
}

function byToken({ secret, hash }: Presented, tokens: Tokens, tenants: KnownTenants): Eventual<Caller> {
  const withTenant = (verified: VerifiedToken): Eventual<Caller> => {
    const tenant = tenants.find(verified.tenant);
    return tenant instanceof Promise ? tenant.then((found) => callerOf(verified, found)) : callerOf(verified, tenant);
  };
  const verified = tokens.verify(secret, hash);
  return verified instanceof Promise ? verified.then(withTenant) : withTenant(verified);
}

function callerOf({ issuer, subject, scopes, expiresAt }: VerifiedToken, tenant: Tenant | ServiceError): Caller {
  if (tenant instanceof ServiceError) throw tenant;
  return {
    kind: 'token',
    id: `${issuer} ${subject}`,
    name: subject,
    secretHash: undefined,
    scopes,
    queues: undefined,
    limits: {},
    expiresAt,
    tenant,
  };
}

function present(authorization = ''): Presented {
  const secret = authorization.length > LONGEST ? undefined : BEARER.exec(authorization)?.[1];
  if (secret === undefined) {
    throw new ServiceError(
      'UNAUTHENTICATED',
      'this needs a credential: Authorization: Bearer, then an API key or a token',
    );
  }
  return { authorization, secret, hash: hashSecret(secret) };
}
