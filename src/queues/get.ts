import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { Queue, readQueue } from './queue.js';

export const getQueue = defineOperation({
  name: 'GetQueue',
  group: 'Queues',
  summary: 'Get a queue with its settings and counts',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/queues/:queue' }],
  input: Type.Object({ queue: queueName }),
  output: Queue,
  run: async (context: Context<Engine>, input) => {
    const { queue } = await readQueue(context.engine.database.ordinary, context.tenant.id, input.queue);
    return queue;
  },
});
