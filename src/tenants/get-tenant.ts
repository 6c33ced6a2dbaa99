import { type Static, Type } from 'typebox';
import { idOrName } from '../core/names.js';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { findTenant, Tenant } from './tenant.js';

const Input = Type.Object({ tenant: idOrName('Id or name of the tenant.') });

/** A tenant by id or name. Throws NOT_FOUND. */
export const getTenant = defineAdminOperation({
  name: 'GetTenant',
  group: 'Admin',
  summary: 'Get a tenant',
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/tenants/:tenant' }],
  input: Input,
  output: Tenant,
  run: ({ engine }: AdminContext<Engine>, { tenant }: Static<typeof Input>): Promise<Tenant> =>
    findTenant(engine.database.ordinary, tenant),
});
