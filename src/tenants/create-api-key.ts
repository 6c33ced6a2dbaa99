import { type Static, Type } from 'typebox';
import { v7 } from 'uuid';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import { Timestamp } from '../core/wire.js';
import type { Connections, Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { type ApiKeyRow, keyFields, KeyScope, toApiKey } from './api-key.js';
import { createSecret, hashSecret } from './secret.js';
import { findTenant, givenName, idOrName } from './tenant.js';

const Input = Type.Object({
  tenant: idOrName('Id or name of the tenant.'),
  name: givenName('Not the name of another key of the tenant that is not revoked.'),
  scopes: Type.Array(KeyScope, { minItems: 1, uniqueItems: true }),
  expiresAt: Type.Optional(Timestamp({ description: 'In the future. Without it the key does not expire.' })),
});

const Output = Type.Object({
  ...keyFields,
  secret: Type.String({ description: 'Shown this once: only a hash of it is kept.' }),
});
export type CreatedKey = Static<typeof Output>;

/** Makes a key of a tenant and answers its secret. Throws NOT_FOUND for an unknown tenant, CONFLICT when the name is taken. */
export const createApiKey = defineAdminOperation({
  name: 'CreateApiKey',
  group: 'Admin',
  summary: 'Create an API key',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants/:tenant/keys', status: 201 }],
  input: Input,
  output: Output,
  example: { name: 'worker', scopes: ['work'] },
  run: async ({ engine }: AdminContext<Engine>, input: Static<typeof Input>): Promise<CreatedKey> => {
    const { ordinary } = engine.database;
    const { expiresAt } = input;
    if (expiresAt !== undefined && expiresAt <= engine.clock.now())
      throw invalidField('expiresAt', 'must be in the future');
    const { id } = await findTenant(ordinary, input.tenant);
    return insertKey(ordinary, { ...input, tenantId: id, expiresAt });
  },
});

export interface NewKey {
  readonly tenantId: string;
  readonly name: string;
  readonly scopes: CreatedKey['scopes'];
  readonly expiresAt: number | undefined;
}

/** Stores a new key. Throws CONFLICT when the name is taken. */
export async function insertKey(connections: Connections, key: NewKey): Promise<CreatedKey> {
  const id = v7();
  const secret = createSecret(id);
  const values = [id, key.tenantId, key.name, hashSecret(secret), key.scopes, key.expiresAt ?? null];
  const [row] = await connections.query<ApiKeyRow>(CREATE, values);
  if (row === undefined) throw new ServiceError('CONFLICT', 'the tenant has a key of this name');
  return { ...toApiKey(row), secret };
}

// May run beside itself: of two for one name, the later waits for the earlier and gives way.
const CREATE: Statement = {
  name: 'key-create',
  text: `insert into api_key (id, tenant_id, name, secret_hash, scopes, expires_at)
values ($1::uuid, $2::uuid, $3, $4::bytea, $5::text[], timestamptz 'epoch' + $6::float8 * interval '1 microsecond')
on conflict (tenant_id, name) where revoked_at is null do nothing
returning id, name, scopes, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt", null::float8 as "revokedAt"`,
};
