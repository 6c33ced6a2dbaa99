import { type Static, Type } from 'typebox';
import { TenantLimits } from '../core/limits.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';

const Output = Type.Object({
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  autoCreateQueues: Type.Boolean({
    description: 'Whether an enqueue or a lease may name a queue that does not exist yet.',
  }),
  limits: TenantLimits,
  queues: Type.Integer({ description: 'Queues it has.' }),
  schedules: Type.Integer({ description: 'Schedules it has.' }),
  storedJobs: Type.Integer({ description: 'Jobs scheduled, ready, leased and dead.' }),
});

type Used = Pick<Static<typeof Output>, 'queues' | 'schedules' | 'storedJobs'>;

/** The caller's tenant, its limits, and how much of those that are counted is used. */
export const getOwnTenant = defineOperation({
  name: 'GetOwnTenant',
  group: 'Account',
  summary: 'Get your tenant, its limits and what is used of them',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/tenant' }],
  input: Type.Object({}),
  output: Output,
  run: async ({ engine, tenant }: Context<Engine>): Promise<Static<typeof Output>> => {
    const { id, name, autoCreateQueues, limits } = tenant;
    const [used] = await engine.database.ordinary.query<Used>(USED, [id]);
    return { id, name, autoCreateQueues, limits, ...used! };
  },
});

// Reads the counts of the tenant's queues, exact as of the last commit; indexes queue_name and queue_count_queue, and that of
// schedule on (tenant_id, name).
const USED: Statement = {
  name: 'tenant-used',
  text: `select count(distinct q.id)::int as queues, (select count(*)::int from schedule where tenant_id = $1::uuid) as schedules,
  coalesce(sum(c.scheduled + c.ready + c.leased + c.dead), 0)::float8 as "storedJobs"
from queue q
left join queue_count c on c.queue_id = q.id
where q.tenant_id = $1::uuid and q.closed_at is null`,
};
