import { type Static, Type } from 'typebox';
import { Timestamp } from '../core/wire.js';
import { decodeCursor } from '../core/page.js';
import type { Connections, Statement } from '../db/pool.js';
import { invalidField, ServiceError } from '../errors.js';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const FIRST_ID = '00000000-0000-0000-0000-000000000000';

/** The name of a tenant or a key. It never has a UUID's form, so that it can stand wherever an id can. */
export const givenName = (description: string) =>
  Type.String({
    pattern: '^(?![0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$)[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
    'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79} and not a UUID',
    description,
  });

/** An id or a name. */
export const idOrName = (description: string) =>
  Type.String({
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
    'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}',
    description,
  });

export const Tenant = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  autoCreateQueues: Type.Boolean({
    description: 'Whether an enqueue or a lease may name a queue that does not exist yet.',
  }),
  createdAt: Timestamp(),
});
export type Tenant = Static<typeof Tenant>;

/** The text as an id, if that is what it is, and as a name if not: `[id, null]` or `[null, name]`. */
export function idAndName(text: string): [id: string | null, name: string | null] {
  return UUID.test(text) ? [text.toLowerCase(), null] : [null, text];
}

/** Finds a tenant by id or name. Throws NOT_FOUND. */
export async function findTenant(connections: Connections, tenant: string): Promise<Tenant> {
  const [found] = await connections.query<Tenant>(FIND, idAndName(tenant));
  if (found === undefined) throw new ServiceError('NOT_FOUND', 'no such tenant');
  return found;
}

/** Where a list by id goes on, from its cursor. */
export function idAfter(cursor: string | undefined): string {
  if (cursor === undefined) return FIRST_ID;
  const [id] = decodeCursor(cursor, 1);
  if (typeof id === 'string' && UUID.test(id)) return id;
  throw invalidField('cursor', 'must be the nextCursor of an earlier page of this list');
}

// One look-up on a unique index.
const FIND: Statement = {
  name: 'tenant-find',
  text: `select id, name, auto_create_queues as "autoCreateQueues", (extract(epoch from created_at) * 1000000)::float8 as "createdAt"
from tenant
where id = $1::uuid
union all
select id, name, auto_create_queues, (extract(epoch from created_at) * 1000000)::float8
from tenant
where name = $2`,
};
