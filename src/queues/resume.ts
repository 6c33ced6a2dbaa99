import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { Queue, readQueue } from './queue.js';
import { recordedQueue } from './recorded.js';

export const resumeQueue = defineOperation({
  name: 'ResumeQueue',
  group: 'Queues',
  summary: 'Lease from a paused queue again',
  description: 'Resuming a queue that is not paused changes nothing.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/queues/:queue/resume' }],
  input: Type.Object({ queue: queueName }),
  output: Queue,
  run: async (context: Context<Engine>, input) => {
    const { engine, tenant } = context;
    const { id, queue } = await engine.database.ordinary.transaction(async (connection) => {
      const changed = await connection.query<{ id: number }>(RESUME, [tenant.id, input.queue]);
      if (changed.length > 0) {
        await recordAct(connection, context, {
          action: 'ResumeQueue',
          target: recordedQueue(input.queue),
          before: '{"paused":true}',
          after: '{"paused":false}',
        });
      }
      return readQueue(connection, tenant.id, input.queue);
    });
    engine.wakeups.changed(id);
    engine.wakeups.ready([id]);
    return queue;
  },
});

// Locks the queue's row; may run beside everything. Index queue_name.
const RESUME: Statement = {
  name: 'queue-resume',
  text: `update queue
set paused_at = null, updated_at = clock_timestamp()
where tenant_id = $1::uuid and name = $2 and closed_at is null and paused_at is not null
returning id`,
};
