import { type Static, Type } from 'typebox';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { ApiKey, type ApiKeyRow, toApiKey } from './api-key.js';
import { findTenant, idAndName, idOrName } from './tenant.js';

const Input = Type.Object({
  tenant: idOrName('Id or name of the tenant.'),
  key: idOrName('Id of the key, or its name while it is not revoked.'),
});

/**
 * Revokes a key: refused here at once, elsewhere within 5 s. A key that is revoked already, given by its id, is answered as
 * it is. Throws NOT_FOUND.
 */
export const revokeApiKey = defineAdminOperation({
  name: 'RevokeApiKey',
  group: 'Admin',
  summary: 'Revoke an API key',
  description: 'The key is refused within 5 s by every instance of the service.',
  scopes: ['admin'],
  http: [{ method: 'DELETE', path: '/v1/admin/tenants/:tenant/keys/:key' }],
  input: Input,
  output: ApiKey,
  run: async ({ engine }: AdminContext<Engine>, input: Static<typeof Input>): Promise<ApiKey> => {
    const { ordinary } = engine.database;
    const { id } = await findTenant(ordinary, input.tenant);
    const [row] = await ordinary.query<ApiKeyRow>(REVOKE, [id, ...idAndName(input.key)]);
    if (row === undefined) throw new ServiceError('NOT_FOUND', 'no such key');
    engine.credentials.forget(row.id);
    return toApiKey(row);
  },
});

// Locks the one row; of two at once the first sets the time.
const REVOKE: Statement = {
  name: 'key-revoke',
  text: `update api_key
set revoked_at = coalesce(revoked_at, clock_timestamp())
where tenant_id = $1::uuid and (id = $2::uuid or (name = $3 and revoked_at is null))
returning id, name, scopes, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt",
  (extract(epoch from revoked_at) * 1000000)::float8 as "revokedAt"`,
};
