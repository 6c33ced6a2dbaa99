import { Type, type Static } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type AdminContext, type Context, defineAdminOperation, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { CreatedAdminKey, CreatedKey, shownAdminKey, shownApiKey, toAdminKey, toApiKey } from './api-key.js';
import { checkExpiry, newKeyFields, type NewKeyFields, plainNewKeyFields, whichTenant } from './key-input.js';
import { refuseBeyond } from './key-rights.js';
import { insertKey } from './key-rows.js';
import { findTenant } from './tenant.js';

const OfTenant = Type.Object({ ...whichTenant, ...newKeyFields });
const Own = Type.Object(newKeyFields);
const Admin = Type.Object(plainNewKeyFields);

/** Makes a key of a tenant and answers its secret. Throws NOT_FOUND for an unknown tenant, CONFLICT when the name is taken. */
export const createApiKey = defineAdminOperation({
  name: 'CreateApiKey',
  group: 'Admin',
  summary: 'Create an API key',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants/:tenant/keys', status: 201 }],
  input: OfTenant,
  output: CreatedKey,
  example: { name: 'worker', scopes: ['work'], queues: ['billing-*'] },
  run: async (context: AdminContext<Engine>, input: Static<typeof OfTenant>): Promise<CreatedKey> => {
    checkExpiry(context.engine, input.expiresAt);
    const { id } = await findTenant(context.engine.database.ordinary, input.tenant);
    return create(context, id, { ...input, action: 'CreateApiKey' });
  },
});

/**
 * Makes a further key of the caller's tenant and answers its secret. Throws PERMISSION_DENIED for a key that could do more than the
 * caller, CONFLICT when the name is taken.
 */
export const createOwnKey = defineOperation({
  name: 'CreateOwnKey',
  group: 'Account',
  summary: 'Create an API key of your tenant',
  description:
    'The key can have no scope, queue or payload beyond those of the caller, and lasts no longer. A caller with a limit on calls, jobs, parked leases or streams makes none.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/keys', status: 201 }],
  input: Own,
  output: CreatedKey,
  example: { name: 'producer', scopes: ['enqueue'], queues: ['mail'] },
  run: async (context: Context<Engine>, input: Static<typeof Own>): Promise<CreatedKey> => {
    checkExpiry(context.engine, input.expiresAt);
    refuseBeyond(context.caller, input);
    return create(context, context.tenant.id, { ...input, action: 'CreateOwnKey' });
  },
});

/** Makes an administrator's key, of no tenant, and answers its secret. Throws CONFLICT when the name is taken. */
export const createAdminKey = defineAdminOperation({
  name: 'CreateAdminKey',
  group: 'Admin',
  summary: 'Create an admin key',
  description: 'It has the scope `admin` and belongs to no tenant.',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/keys', status: 201 }],
  input: Admin,
  output: CreatedAdminKey,
  example: { name: 'on-call', expiresAt: '2030-01-01T00:00:00Z' },
  run: async (context: AdminContext<Engine>, input: Static<typeof Admin>): Promise<CreatedAdminKey> => {
    checkExpiry(context.engine, input.expiresAt);
    return context.engine.database.ordinary.transaction(async (connection) => {
      const { row, secret } = await insertKey(connection, { ...input, tenantId: null, scopes: ['admin'] });
      const key = toAdminKey(row);
      const act = { action: 'CreateAdminKey', target: `admin key ${key.name}`, after: shownAdminKey(key) };
      await recordAct(connection, context, act);
      return { ...key, secret };
    });
  },
});

function create(
  context: AdminContext<Engine>,
  tenantId: string,
  { action, ...fields }: NewKeyFields & { readonly action: string },
): Promise<CreatedKey> {
  return context.engine.database.ordinary.transaction(async (connection) => {
    const { row, secret } = await insertKey(connection, { ...fields, tenantId });
    const key = toApiKey(row);
    await recordAct(connection, context, { action, target: `key ${key.name}`, tenantId, after: shownApiKey(key) });
    return { ...key, secret };
  });
}
