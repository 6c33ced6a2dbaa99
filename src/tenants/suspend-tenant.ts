import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockTenant, shownTenant, Tenant } from './tenant.js';

const Input = Type.Object({ tenant: idOrName('Id or name of the tenant.') });

/** Refuses the calls of a tenant until it is resumed. Suspending a suspended one changes nothing. Throws NOT_FOUND. */
export const suspendTenant = defineAdminOperation({
  name: 'SuspendTenant',
  group: 'Admin',
  summary: 'Suspend a tenant',
  description:
    'All of its calls are refused (403) within 5 s on every instance, its parked leases and streams ended. Its jobs stay; leases that its workers hold run out.',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants/:tenant/suspend' }],
  input: Input,
  output: Tenant,
  run: async (context: AdminContext<Engine>, input: Static<typeof Input>): Promise<Tenant> => {
    const tenant = await context.engine.database.ordinary.transaction(async (connection) => {
      const before = await lockTenant(connection, input.tenant);
      if (before.state === 'suspended') return before;
      await connection.query(SUSPEND, [before.id]);
      const after: Tenant = { ...before, state: 'suspended' };
      await recordAct(connection, context, {
        action: 'SuspendTenant',
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

// The row is locked by the transaction.
const SUSPEND: Statement = {
  name: 'tenant-suspend',
  text: `update tenant set suspended_at = clock_timestamp() where id = $1::uuid`,
};
