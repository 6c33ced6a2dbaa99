import { type Static, Type } from 'typebox';
import { idAndName, idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { EventList, whichEvents } from './list-input.js';
import { type EventPage, readEvents } from './read-events.js';

const Input = Type.Object({
  tenant: Type.Optional(idOrName('Id or name of the tenant it concerns; one that is deleted by its id.')),
  ...whichEvents,
});
type Input = Static<typeof Input>;

/** The audit log of all tenants and of what is of no tenant. Throws NOT_FOUND for the name of a tenant that is not there. */
export const listAuditEvents = defineAdminOperation({
  name: 'ListAuditEvents',
  group: 'Admin',
  summary: 'Read the audit log',
  description:
    'Every administrative act, oldest first: who did what to what, when and from where, and administrative calls that were ' +
    'refused. Whoever follows the log should ask for the last minutes again: an act shows when it is committed, under the instant ' +
    'at which it was carried out.',
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/audit' }],
  input: Input,
  output: EventList,
  run: async ({ engine }: AdminContext<Engine>, input: Input): Promise<EventPage> => {
    const { ordinary } = engine.database;
    return readEvents(ordinary, { ...input, tenantId: await tenantIdOf(ordinary, input.tenant) });
  },
});

async function tenantIdOf(connection: Pick<Connection, 'query'>, tenant: string | undefined) {
  if (tenant === undefined) return undefined;
  const [id, name] = idAndName(tenant);
  if (id !== null) return id;
  const [found] = await connection.query<{ id: string }>(TENANT_BY_NAME, [name]);
  if (found === undefined) throw new ServiceError('NOT_FOUND', 'no such tenant');
  return found.id;
}

// One look-up on the unique index tenant_name.
const TENANT_BY_NAME: Statement = {
  name: 'audit-tenant-by-name',
  text: `select id from tenant where name = $1::text and closed_at is null`,
};
