import { timingSafeEqual } from 'node:crypto';
import type { Eventual } from '../core/eventual.js';
import type { Caller } from '../core/operation.js';
import type { CredentialMemory, Presented } from '../core/presented.js';
import { ServiceError } from '../errors.js';
import type { KnownKeys } from './known-keys.js';
import { hashSecret } from './secret.js';

const BEARER = /^bearer +(\S+) *$/i;
const LONGEST = 1024;

const ROOT: Caller = { keyId: 'root', keyName: 'root', scopes: new Set(['admin']), tenant: undefined };

export interface AuthenticateParts {
  readonly keys: KnownKeys;
  /** The administrator's key; an empty one lets nobody in. */
  readonly adminKey: string;
}

/**
 * Tells who calls, by the `Authorization` header or metadata: `Bearer` with an API key or the admin key. `memory` is the
 * connection's. It throws
 * UNAUTHENTICATED, in the same words whether the key is unknown, expired or revoked, and UNAVAILABLE when the database is away.
 */
export function createAuthenticate({ keys, adminKey }: AuthenticateParts) {
  const adminHash = hashSecret(adminKey);
  return function authenticate(authorization: string | undefined, memory: CredentialMemory): Eventual<Caller> {
    const last = memory.presented;
    const presented = last !== undefined && last.authorization === authorization ? last : present(authorization);
    memory.presented = presented;
    const remembered = keys.remembered(presented);
    if (remembered !== undefined) return remembered;
    if (adminKey !== '' && timingSafeEqual(presented.hash, adminHash)) return ROOT;
    const found = keys.find(presented);
    return found instanceof Promise ? found.then(admitted) : admitted(found);
  };
}

function admitted(caller: Caller | undefined): Caller {
  if (caller === undefined) throw new ServiceError('UNAUTHENTICATED', 'the API key is unknown, expired or revoked');
  return caller;
}

function present(authorization = ''): Presented {
  const secret = authorization.length > LONGEST ? undefined : BEARER.exec(authorization)?.[1];
  if (secret === undefined) {
    throw new ServiceError('UNAUTHENTICATED', 'this needs a credential: Authorization: Bearer, then an API key');
  }
  return { authorization, secret, hash: hashSecret(secret) };
}
