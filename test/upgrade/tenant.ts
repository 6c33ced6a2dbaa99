import assert from 'node:assert/strict';
import { type Client, clientFor } from '../helpers/service.js';
import type { Fleet } from './fleet.js';

/** A client of the fleet's first instance, of a new tenant. */
export async function tenantOf({ instances, adminKey }: Fleet): Promise<Client> {
  const { base } = instances[0]!;
  const admin = clientFor(base, adminKey);
  const tenant = await admin.post('/v1/admin/tenants', { name: 'acme' });
  assert.equal(tenant.status, 201, tenant.text);
  const key = await admin.post('/v1/admin/tenants/acme/keys', { name: 'all', scopes: ['enqueue', 'work', 'read'] });
  assert.equal(key.status, 201, key.text);
  return clientFor(base, key.body.secret as string);
}
