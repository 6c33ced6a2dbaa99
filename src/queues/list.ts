import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { decodeCursor, DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Engine } from '../hotpath/engine.js';
import { usable } from '../jobs/read-jobs.js';
import { Queue, readQueues } from './queue.js';

export const listQueues = defineOperation({
  name: 'ListQueues',
  group: 'Queues',
  summary: 'List queues with their settings and counts',
  description:
    'In the order of their names (by byte). A queue made while you page is met if its name comes after your cursor.',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/queues' }],
  input: Type.Object(pageInput),
  output: Type.Object({ queues: Type.Array(Queue), nextCursor: Type.Optional(Type.String()) }),
  run: async (context: Context<Engine>, input) => {
    const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
    const after = input.cursor === undefined ? '' : String(decodeCursor(input.cursor, 1)[0]);
    const queues = await readQueues(context.engine.database.ordinary, {
      tenantId: context.tenant.id,
      after,
      limit: limit + 1,
      usable: usable(context),
    });
    if (queues.length <= limit) return { queues };
    const page = queues.slice(0, limit);
    return { queues: page, nextCursor: encodeCursor([page.at(-1)!.name]) };
  },
});
