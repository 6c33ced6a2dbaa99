import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockTenant, shownTenant } from './tenant.js';

const Input = Type.Object({ tenant: idOrName('Id or name of the tenant.') });
const Output = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String({ description: 'Of the tenant that is deleted; free for another.' }),
});

/** Closes a tenant; a task deletes what it had. Throws NOT_FOUND, also for one that is being deleted. */
export const deleteTenant = defineAdminOperation({
  name: 'DeleteTenant',
  group: 'Admin',
  summary: 'Delete a tenant with all that it has',
  description:
    'Its keys are refused within 5 s on every instance. Its queues, jobs and keys are deleted in the background, in batches; a ' +
    'deletion that is cut short goes on when the service runs again. What the audit log says of it is kept as long as all the rest.',
  scopes: ['admin'],
  http: [{ method: 'DELETE', path: '/v1/admin/tenants/:tenant', status: 202 }],
  input: Input,
  output: Output,
  run: async (context: AdminContext<Engine>, input: Static<typeof Input>): Promise<Static<typeof Output>> => {
    const { engine } = context;
    const { id, name } = await engine.database.ordinary.transaction(async (connection) => {
      const tenant = await lockTenant(connection, input.tenant);
      await connection.query(CLOSE, [tenant.id]);
      const act = { action: 'DeleteTenant', target: `tenant ${tenant.name}`, before: shownTenant(tenant) };
      await recordAct(connection, context, { ...act, tenantId: tenant.id });
      return tenant;
    });
    engine.credentials.changed();
    return { id, name };
  },
});

// The row is locked by the transaction.
const CLOSE: Statement = {
  name: 'tenant-close',
  text: `update tenant set closed_at = clock_timestamp() where id = $1::uuid`,
};
