import { randomBytes } from 'node:crypto';
import { v7 } from 'uuid';
import type { Connections, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import { insertKey } from './key-rows.js';
import { KnownKeys } from './known-keys.js';
import { hashSecret } from './secret.js';

const SCOPES = ['enqueue', 'work', 'read', 'manage'] as const;

/** Makes the tenant `default` when there is none. */
export async function ensureDefaultTenant(connections: Connections): Promise<{ tenantId: string }> {
  await connections.query(CREATE, [v7()]);
  const [found] = await connections.query<{ tenantId: string }>(FIND);
  return found!;
}

/**
 * The secret of a working key of the tenant: the kept one while it works, else that of a new key. What the new key is called
 * is new too, so that no other key has to give way.
 */
export async function ensureDefaultKey(
  connections: Connections,
  tenantId: string,
  keptSecret: string | undefined,
): Promise<string> {
  if (keptSecret !== undefined) {
    const caller = await new KnownKeys(connections).find({ secret: keptSecret, hash: hashSecret(keptSecret) });
    if (
      !(caller instanceof ServiceError) &&
      caller.tenant?.id === tenantId &&
      SCOPES.every((scope) => caller.scopes.has(scope))
    )
      return keptSecret;
  }
  const name = `local-${randomBytes(4).toString('hex')}`;
  const { secret } = await insertKey(connections, { tenantId, name, scopes: SCOPES });
  return secret;
}

// May run beside itself: the later of two gives way.
const CREATE: Statement = {
  name: 'default-tenant-create',
  text: `insert into tenant (id, name)
values ($1::uuid, 'default')
on conflict (name) where closed_at is null do nothing`,
};

const FIND: Statement = {
  name: 'default-tenant-find',
  text: `select id as "tenantId"
from tenant
where name = 'default' and closed_at is null`,
};
