import { type Static, Type } from 'typebox';
import { type AdminContext, type Context, defineAdminOperation, defineOperation } from '../core/operation.js';
import { DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Engine } from '../hotpath/engine.js';
import { AdminKey, ApiKey, type ApiKeyRow, toAdminKey, toApiKey } from './api-key.js';
import { whichTenant } from './key-input.js';
import { readKeys } from './key-rows.js';
import { findTenant, idAfter } from './tenant.js';

const OfTenant = Type.Object({ ...whichTenant, ...pageInput });
const Own = Type.Object(pageInput);
const Keys = Type.Object({ keys: Type.Array(ApiKey), nextCursor: Type.Optional(Type.String()) });
const AdminKeys = Type.Object({ keys: Type.Array(AdminKey), nextCursor: Type.Optional(Type.String()) });

const description = 'Revoked and expired ones too, oldest first.';

/** A tenant's keys. Throws NOT_FOUND for an unknown tenant. */
export const listApiKeys = defineAdminOperation({
  name: 'ListApiKeys',
  group: 'Admin',
  summary: 'List the API keys of a tenant',
  description,
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/tenants/:tenant/keys' }],
  input: OfTenant,
  output: Keys,
  run: async (context: AdminContext<Engine>, input: Static<typeof OfTenant>): Promise<Static<typeof Keys>> => {
    const { id } = await findTenant(context.engine.database.ordinary, input.tenant);
    return list(context, id, { ...input, toKey: toApiKey });
  },
});

/** The keys of the caller's tenant. */
export const listOwnKeys = defineOperation({
  name: 'ListOwnKeys',
  group: 'Account',
  summary: 'List the API keys of your tenant',
  description,
  scopes: ['manage'],
  http: [{ method: 'GET', path: '/v1/keys' }],
  input: Own,
  output: Keys,
  run: (context: Context<Engine>, input: Static<typeof Own>): Promise<Static<typeof Keys>> =>
    list(context, context.tenant.id, { ...input, toKey: toApiKey }),
});

/** The administrators' keys; root keys, which stand in the configuration, are not among them. */
export const listAdminKeys = defineAdminOperation({
  name: 'ListAdminKeys',
  group: 'Admin',
  summary: 'List admin keys',
  description: 'Revoked and expired ones too, oldest first; not the root keys of the configuration.',
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/keys' }],
  input: Own,
  output: AdminKeys,
  run: (context: AdminContext<Engine>, input: Static<typeof Own>): Promise<Static<typeof AdminKeys>> =>
    list(context, null, { ...input, toKey: toAdminKey }),
});

interface Page<Key> extends Static<typeof Own> {
  readonly toKey: (row: ApiKeyRow) => Key;
}

async function list<Key extends { readonly id: string }>(
  { engine }: AdminContext<Engine>,
  tenantId: string | null,
  { limit = DEFAULT_PAGE_LIMIT, cursor, toKey }: Page<Key>,
): Promise<{ keys: Key[]; nextCursor: string | undefined }> {
  const page = { tenantId, after: idAfter(cursor), limit: limit + 1 };
  const rows = await readKeys(engine.database.ordinary, page);
  const keys = rows.slice(0, limit).map(toKey);
  return { keys, nextCursor: rows.length > limit ? encodeCursor([keys.at(-1)!.id]) : undefined };
}
