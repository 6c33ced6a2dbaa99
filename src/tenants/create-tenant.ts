import { type Static, Type } from 'typebox';
import { v7 } from 'uuid';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { givenName, Tenant } from './tenant.js';

const Input = Type.Object({
  name: givenName('Not yet the name of another tenant.'),
  autoCreateQueues: Type.Optional(
    Type.Boolean({ description: 'Whether an enqueue creates the queue it names. True unless given.' }),
  ),
});

/** Makes a tenant, empty and without keys. Throws CONFLICT when the name is taken. */
export const createTenant = defineAdminOperation({
  name: 'CreateTenant',
  group: 'Admin',
  summary: 'Create a tenant',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants', status: 201 }],
  input: Input,
  output: Tenant,
  example: { name: 'acme' },
  run: async (
    { engine }: AdminContext<Engine>,
    { name, autoCreateQueues = true }: Static<typeof Input>,
  ): Promise<Tenant> => {
    const [tenant] = await engine.database.ordinary.query<Tenant>(CREATE, [v7(), name, autoCreateQueues]);
    if (tenant === undefined) throw new ServiceError('CONFLICT', 'a tenant of this name exists');
    return tenant;
  },
});

// May run beside itself: of two for one name, the later waits for the earlier and gives way.
const CREATE: Statement = {
  name: 'tenant-create',
  text: `insert into tenant (id, name, auto_create_queues)
values ($1::uuid, $2, $3::boolean)
on conflict (name) do nothing
returning id, name, auto_create_queues as "autoCreateQueues", (extract(epoch from created_at) * 1000000)::float8 as "createdAt"`,
};
