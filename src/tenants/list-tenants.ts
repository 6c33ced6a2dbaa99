import { type Static, Type } from 'typebox';
import { type AdminContext, defineAdminOperation } from '../core/operation.js';
import { DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { idAfter, Tenant } from './tenant.js';

const Input = Type.Object(pageInput);
const Output = Type.Object({ tenants: Type.Array(Tenant), nextCursor: Type.Optional(Type.String()) });

/** All tenants, oldest first. */
export const listTenants = defineAdminOperation({
  name: 'ListTenants',
  group: 'Admin',
  summary: 'List tenants',
  scopes: ['admin'],
  http: [{ method: 'GET', path: '/v1/admin/tenants' }],
  input: Input,
  output: Output,
  run: async ({ engine }: AdminContext<Engine>, input: Static<typeof Input>): Promise<Static<typeof Output>> => {
    const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
    const tenants = await engine.database.ordinary.query<Tenant>(LIST, [idAfter(input.cursor), limit + 1]);
    const page = tenants.slice(0, limit);
    return { tenants: page, nextCursor: tenants.length > limit ? encodeCursor([page.at(-1)!.id]) : undefined };
  },
});

// Walks the primary key; ids are UUID v7, so their order is that of creation.
const LIST: Statement = {
  name: 'tenants-list',
  text: `select id, name, case when suspended_at is null then 'active' else 'suspended' end as state,
  auto_create_queues as "autoCreateQueues", limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt"
from tenant
where id > $1::uuid and closed_at is null
order by id
limit $2::int`,
};
