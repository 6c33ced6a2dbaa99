import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { Queue, readQueue } from './queue.js';
import { recordedQueue } from './recorded.js';

export const pauseQueue = defineOperation({
  name: 'PauseQueue',
  group: 'Queues',
  summary: 'Stop leasing from a queue',
  description: 'Enqueue, heartbeat and settling go on. Pausing a paused queue changes nothing.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/queues/:queue/pause' }],
  input: Type.Object({ queue: queueName }),
  output: Queue,
  run: async (context: Context<Engine>, input) => {
    const { engine, tenant } = context;
    const { id, queue } = await engine.database.ordinary.transaction(async (connection) => {
      const changed = await connection.query<{ id: number }>(PAUSE, [tenant.id, input.queue]);
      if (changed.length > 0) {
        await recordAct(connection, context, {
          action: 'PauseQueue',
          target: recordedQueue(input.queue),
          before: '{"paused":false}',
          after: '{"paused":true}',
        });
      }
      return readQueue(connection, tenant.id, input.queue);
    });
    engine.wakeups.changed(id);
    return queue;
  },
});

// Locks the queue's row; may run beside everything. Index queue_name.
const PAUSE: Statement = {
  name: 'queue-pause',
  text: `update queue
set paused_at = clock_timestamp(), updated_at = clock_timestamp()
where tenant_id = $1::uuid and name = $2 and closed_at is null and paused_at is null
returning id`,
};
