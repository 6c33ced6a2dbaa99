import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { TENANT_LIMIT_NAMES, TenantLimits } from '../core/limits.js';
import { idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { lockTenant, shownTenant, Tenant } from './tenant.js';

const Input = Type.Object({
  tenant: idOrName('Id or name of the tenant.'),
  autoCreateQueues: Type.Optional(
    Type.Boolean({ description: 'Whether an enqueue creates the queue it names from now on.' }),
  ),
  limits: Type.Optional(TenantLimits),
  reset: Type.Optional(
    Type.Array(Type.Enum([...TENANT_LIMIT_NAMES]), {
      maxItems: TENANT_LIMIT_NAMES.length,
      description: 'Limits to take away; none of those named above.',
    }),
  ),
});
type Input = Static<typeof Input>;

/**
 * Changes what it names of a tenant, each limit whole; the others stay. It holds on every instance within 5 s. Throws
 * INVALID_ARGUMENT when nothing is to change or a limit is both set and reset, and NOT_FOUND.
 */
export const updateTenant = defineAdminOperation({
  name: 'UpdateTenant',
  group: 'Admin',
  summary: 'Change a tenant’s limits',
  description: 'Changes the limits it names; the others stay. It holds on every instance within 5 s.',
  scopes: ['admin'],
  http: [{ method: 'PATCH', path: '/v1/admin/tenants/:tenant' }],
  input: Input,
  output: Tenant,
  example: { limits: { requestsPerSecond: 1_000 }, reset: ['storedJobs'] },
  run: async (context: AdminContext<Engine>, input: Input): Promise<Tenant> => {
    const { autoCreateQueues, limits = {}, reset = [] } = input;
    check(input);
    const tenant = await context.engine.database.ordinary.transaction(async (connection) => {
      const before = await lockTenant(connection, input.tenant);
      const values = [before.id, autoCreateQueues ?? null, JSON.stringify(limits), reset];
      const [changed] = await connection.query<Pick<Tenant, 'limits' | 'autoCreateQueues'>>(UPDATE, values);
      const after = { ...before, ...changed! };
      if (shownTenant(after) === shownTenant(before)) return before;
      await recordAct(connection, context, {
        action: 'UpdateTenant',
        target: `tenant ${before.name}`,
        tenantId: before.id,
        before: shownTenant(before),
        after: shownTenant(after),
      });
      return after;
    });
    context.engine.credentials.changed();
    return tenant;
  },
});

function check({ autoCreateQueues, limits = {}, reset = [] }: Input): void {
  if (autoCreateQueues === undefined && Object.keys(limits).length === 0 && reset.length === 0) {
    throw invalidField('body', 'must give autoCreateQueues, limits or reset');
  }
  const both = reset.find((name) => limits[name] !== undefined);
  if (both === undefined) return;
  const message = `${both} is both set and reset`;
  const fields = [`limits.${both}`, 'reset'].map((field) => ({ field, message }));
  throw new ServiceError('INVALID_ARGUMENT', message, { fields });
}

// The row is locked by the transaction.
const UPDATE: Statement = {
  name: 'tenant-update',
  text: `update tenant
set auto_create_queues = coalesce($2::boolean, auto_create_queues), limits = (limits || $3::jsonb) - $4::text[]
where id = $1::uuid
returning auto_create_queues as "autoCreateQueues", limits`,
};
