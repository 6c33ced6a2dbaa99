import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockTenant, shownTenant, Tenant } from './tenant.js';

const Input = Type.Object({ tenant: idOrName('Id or name of the tenant.') });

/** Takes the calls of a suspended tenant again. Resuming an active one changes nothing. Throws NOT_FOUND. */
export const resumeTenant = defineAdminOperation({
  name: 'ResumeTenant',
  group: 'Admin',
  summary: 'Resume a suspended tenant',
  description: 'Its calls are taken again, within 5 s on every instance.',
  scopes: ['admin'],
  http: [{ method: 'POST', path: '/v1/admin/tenants/:tenant/resume' }],
  input: Input,
  output: Tenant,
  run: async (context: AdminContext<Engine>, input: Static<typeof Input>): Promise<Tenant> => {
    const tenant = await context.engine.database.ordinary.transaction(async (connection) => {
      const before = await lockTenant(connection, input.tenant);
      if (before.state === 'active') return before;
      await connection.query(RESUME, [before.id]);
      const after: Tenant = { ...before, state: 'active' };
      await recordAct(connection, context, {
        action: 'ResumeTenant',
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
const RESUME: Statement = {
  name: 'tenant-resume',
  text: `update tenant set suspended_at = null where id = $1::uuid`,
};
