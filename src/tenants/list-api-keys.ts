import { type Static, Type } from 'typebox';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import { DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { ApiKey, type ApiKeyRow, toApiKey } from './api-key.js';
import { findTenant, idAfter, idOrName } from './tenant.js';

const Input = Type.Object({ tenant: idOrName('Id or name of the tenant.'), ...pageInput });
const Output = Type.Object({ keys: Type.Array(ApiKey), nextCursor: Type.Optional(Type.String()) });

/** A tenant's keys, revoked and expired ones too, oldest first. Throws NOT_FOUND for an unknown tenant. */
export const listApiKeys = defineAdminOperation({
  name: 'ListApiKeys',
  group: 'Admin',
  summary: 'List the API keys of a tenant',
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/tenants/:tenant/keys' }],
  input: Input,
  output: Output,
  run: async ({ engine }: AdminContext<Engine>, input: Static<typeof Input>): Promise<Static<typeof Output>> => {
    const { ordinary } = engine.database;
    const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
    const { id } = await findTenant(ordinary, input.tenant);
    const rows = await ordinary.query<ApiKeyRow>(LIST, [id, idAfter(input.cursor), limit + 1]);
    const keys = rows.slice(0, limit).map(toApiKey);
    return { keys, nextCursor: rows.length > limit ? encodeCursor([keys.at(-1)!.id]) : undefined };
  },
});

// Walks the primary key; ids are UUID v7, so their order is that of creation.
const LIST: Statement = {
  name: 'keys-list',
  text: `select id, name, scopes, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt",
  (extract(epoch from revoked_at) * 1000000)::float8 as "revokedAt"
from api_key
where tenant_id = $1::uuid and id > $2::uuid
order by id
limit $3::int`,
};
