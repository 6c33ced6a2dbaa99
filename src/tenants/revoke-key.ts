import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type AdminContext, type Context, defineAdminOperation, defineOperation } from '../core/operation.js';
import type { Connection } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { AdminKey, ApiKey, type ApiKeyRow, shownAdminKey, shownApiKey, toAdminKey, toApiKey } from './api-key.js';
import { whichKey, whichTenant } from './key-input.js';
import { refuseWider } from './key-rights.js';
import { lockKey, revokeKey } from './key-rows.js';
import { findTenant } from './tenant.js';

const OfTenant = Type.Object({ ...whichTenant, ...whichKey });
const Own = Type.Object(whichKey);

const description =
  'The key is refused within 5 s by every instance of the service; parked leases and streams of its holders end. A key that ' +
  'is revoked already, given by its id, is answered as it is.';

/** Revokes a tenant's key. Throws NOT_FOUND. */
export const revokeApiKey = defineAdminOperation({
  name: 'RevokeApiKey',
  group: 'Admin',
  summary: 'Revoke an API key',
  description,
  scopes: ['admin'],
  http: [{ method: 'DELETE', path: '/v1/admin/tenants/:tenant/keys/:key' }],
  input: OfTenant,
  output: ApiKey,
  run: async (context: AdminContext<Engine>, input: Static<typeof OfTenant>): Promise<ApiKey> => {
    const { id } = await findTenant(context.engine.database.ordinary, input.tenant);
    return toApiKey(await revoke(context, id, { ...input, action: 'RevokeApiKey', check: () => undefined }));
  },
});

/** Revokes a key of the caller's tenant. Throws NOT_FOUND, and PERMISSION_DENIED for one that can do more than the caller. */
export const revokeOwnKey = defineOperation({
  name: 'RevokeOwnKey',
  group: 'Account',
  summary: 'Revoke an API key of your tenant',
  description,
  scopes: ['manage'],
  http: [{ method: 'DELETE', path: '/v1/keys/:key' }],
  input: Own,
  output: ApiKey,
  run: async (context: Context<Engine>, input: Static<typeof Own>): Promise<ApiKey> => {
    const check = (key: ApiKeyRow): void => refuseWider(context.caller, toApiKey(key));
    return toApiKey(await revoke(context, context.tenant.id, { ...input, action: 'RevokeOwnKey', check }));
  },
});

/** Revokes an administrator's key. Throws NOT_FOUND. */
export const revokeAdminKey = defineAdminOperation({
  name: 'RevokeAdminKey',
  group: 'Admin',
  summary: 'Revoke an admin key',
  description,
  scopes: ['admin'],
  http: [{ method: 'DELETE', path: '/v1/admin/keys/:key' }],
  input: Own,
  output: AdminKey,
  run: async (context: AdminContext<Engine>, input: Static<typeof Own>): Promise<AdminKey> =>
    toAdminKey(await revoke(context, null, { ...input, action: 'RevokeAdminKey', check: () => undefined })),
});

interface Revocation {
  readonly key: string;
  readonly action: string;
  /** May throw. */
  readonly check: (key: ApiKeyRow) => void;
}

async function revoke(context: AdminContext<Engine>, tenantId: string | null, { key, action, check }: Revocation) {
  const { row, isNew } = await context.engine.database.ordinary.transaction(async (connection: Connection) => {
    const before = await lockKey(connection, tenantId, key);
    check(before);
    if (before.revokedAt !== null) return { row: before, isNew: false };
    const after = await revokeKey(connection, before);
    const shown = (row: ApiKeyRow): string =>
      tenantId === null ? shownAdminKey(toAdminKey(row)) : shownApiKey(toApiKey(row));
    const target = `${tenantId === null ? 'admin key' : 'key'} ${before.name}`;
    await recordAct(connection, context, { action, target, tenantId, before: shown(before), after: shown(after) });
    return { row: after, isNew: true };
  });
  if (isNew) context.engine.credentials.changed();
  return row;
}
