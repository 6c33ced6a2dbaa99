import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { noSuchQueue } from './queue.js';
import { recordedQueue } from './recorded.js';

export const purgeQueue = defineOperation({
  name: 'PurgeQueue',
  group: 'Queues',
  summary: 'Delete every job that waits in a queue',
  description:
    'From the answer on none of the scheduled and ready jobs can be leased or found, as if they had never been (idempotency keys ' +
    'too); storage is freed in the background. Leased, dead and finished jobs stay.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/queues/:queue/purge', status: 202 }],
  input: Type.Object({ queue: queueName }),
  output: Type.Object({ purged: Type.Integer({ description: 'Scheduled and ready jobs at that moment.' }) }),
  run: async (context: Context<Engine>, input) => {
    const { engine, tenant } = context;
    const { id, purged } = await engine.database.ordinary.transaction(async (connection) => {
      const [row] = await connection.query<{ id: number; purged: number }>(PURGE, [tenant.id, input.queue]);
      if (row === undefined) throw noSuchQueue();
      // Recorded even with none: what came in after the count and before the cut is purged too.
      const after = `{"purged":${row.purged}}`;
      await recordAct(connection, context, { action: 'PurgeQueue', target: recordedQueue(input.queue), after });
      return row;
    });
    engine.wakeups.changed(id);
    return { purged };
  },
});

// Locks the queue's row: another purge of it waits and counts beyond this one's cut, and whoever moves jobs between scheduled
// and ready under a share lock of that row sees the cut. The new cut is drawn after the snapshot, so it covers all that is
// counted. Before a cut the count is the sum of the changes (index queue_count_queue); the rest as in counts.ts.
const PURGE: Statement = {
  name: 'queue-purge',
  text: `with target as materialized (
  select id, cut from queue where tenant_id = $1::uuid and name = $2 and closed_at is null for update
),
counted as materialized (
  select case when t.cut = 0 then (
      select coalesce(sum(c.ready + c.scheduled), 0) from queue_count c where c.queue_id = t.id)
    else (select count(*) from ready r where r.queue_id = t.id and r.pos > t.cut)
      + (select count(*) from scheduled s where s.queue_id = t.id and s.pos > t.cut) end as jobs
  from target t
)
update queue
set cut = nextval('pos')
from target, counted
where queue.id = target.id
returning queue.id, counted.jobs::float8 as purged`,
};
