import { type Static, Type } from 'typebox';
import { v7 } from 'uuid';
import { recordAct } from '../audit/record-act.js';
import { TenantLimits } from '../core/limits.js';
import { givenName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { shownTenant, Tenant } from './tenant.js';

const Input = Type.Object({
  name: givenName('Not yet the name of another tenant.'),
  autoCreateQueues: Type.Optional(
    Type.Boolean({ description: 'Whether an enqueue creates the queue it names. True unless given.' }),
  ),
  limits: Type.Optional(TenantLimits),
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
  example: { name: 'acme', limits: { requestsPerSecond: 500, storedJobs: 1_000_000 } },
  run: async (context: AdminContext<Engine>, input: Static<typeof Input>): Promise<Tenant> => {
    const { name, autoCreateQueues = true, limits = {} } = input;
    const made = await context.engine.database.ordinary.transaction(async (connection) => {
      const values = [v7(), name, autoCreateQueues, JSON.stringify(limits)];
      const [tenant] = await connection.query<Tenant>(CREATE, values);
      if (tenant === undefined) throw new ServiceError('CONFLICT', 'a tenant of this name exists');
      const act = { action: 'CreateTenant', target: `tenant ${name}`, tenantId: tenant.id, after: shownTenant(tenant) };
      await recordAct(connection, context, act);
      return tenant;
    });
    // A token may have named it before it was there.
    context.engine.credentials.changed();
    return made;
  },
});

// May run beside itself: of two for one name, the later waits for the earlier and gives way.
const CREATE: Statement = {
  name: 'tenant-create',
  text: `insert into tenant (id, name, auto_create_queues, limits)
values ($1::uuid, $2, $3::boolean, $4::jsonb)
on conflict (name) where closed_at is null do nothing
returning id, name, 'active' as state, auto_create_queues as "autoCreateQueues", limits,
  (extract(epoch from created_at) * 1000000)::float8 as "createdAt"`,
};
