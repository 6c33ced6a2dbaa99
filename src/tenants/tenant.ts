import { type Static, Type } from 'typebox';
import { compileEncoder } from '../core/encode.js';
import { TenantLimits } from '../core/limits.js';
import { idAndName } from '../core/names.js';
import { decodeCursor } from '../core/page.js';
import { Timestamp } from '../core/wire.js';
import type { Connection, Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

export const Tenant = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  state: Type.Enum(['active', 'suspended'], { description: 'The calls of a suspended tenant are refused.' }),
  autoCreateQueues: Type.Boolean({
    description: 'Whether an enqueue or a lease may name a queue that does not exist yet.',
  }),
  limits: TenantLimits,
  createdAt: Timestamp(),
});
export type Tenant = Static<typeof Tenant>;

/** A tenant as the audit log shows it: JSON text. */
export const shownTenant = compileEncoder(Tenant) as (tenant: Tenant) => string;

/** What a caller is told who names a tenant that is not there, or no longer. */
export function noSuchTenant(): ServiceError {
  return new ServiceError('NOT_FOUND', 'no such tenant');
}

/** Finds a tenant by id or name. Throws NOT_FOUND. */
export async function findTenant(connection: Pick<Connection, 'query'>, tenant: string): Promise<Tenant> {
  const [found] = await connection.query<Tenant>(FIND, idAndName(tenant));
  if (found === undefined) throw noSuchTenant();
  return found;
}

/** The same, locked until the transaction ends. */
export async function lockTenant(connection: Connection, tenant: string): Promise<Tenant> {
  const [found] = await connection.query<Tenant>(LOCK, idAndName(tenant));
  if (found === undefined) throw noSuchTenant();
  return found;
}

/** Where a list by id goes on, from its cursor. */
export function idAfter(cursor: string | undefined): string {
  if (cursor === undefined) return FIRST_ID;
  const [id] = decodeCursor(cursor, 1);
  if (typeof id === 'string' && UUID.test(id)) return id;
  throw invalidField('cursor', 'must be the nextCursor of an earlier page of this list');
}

// Both are one look-up on a unique index. New queues and keys, whose foreign key takes KEY SHARE, do not wait for LOCK.
const FIND: Statement = {
  name: 'tenant-find',
  text: `select id, name, case when suspended_at is null then 'active' else 'suspended' end as state,
  auto_create_queues as "autoCreateQueues", limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt"
from tenant
where id = (
    select id from tenant where id = $1::uuid
    union all
    select id from tenant where name = $2::text and closed_at is null)
  and closed_at is null`,
};

const LOCK: Statement = {
  name: 'tenant-lock',
  text: `select id, name, case when suspended_at is null then 'active' else 'suspended' end as state,
  auto_create_queues as "autoCreateQueues", limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt"
from tenant
where id = (
    select id from tenant where id = $1::uuid
    union all
    select id from tenant where name = $2::text and closed_at is null)
  and closed_at is null
for no key update`,
};
