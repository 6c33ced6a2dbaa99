import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { decodeCursor, DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Engine } from '../hotpath/engine.js';
import { readWebhooks } from './read-webhooks.js';
import { mayHandle, shownWebhook, Webhook } from './webhook.js';

export const listWebhooks = defineOperation({
  name: 'ListWebhooks',
  group: 'Events',
  summary: 'List webhooks with the state of their deliveries',
  description:
    'In the order of their names (by byte). A key that is bound to queues sees those that tell of no other queues; a page may hold fewer than `limit` then.',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/webhooks' }],
  input: Type.Object(pageInput),
  output: Type.Object({ webhooks: Type.Array(Webhook), nextCursor: Type.Optional(Type.String()) }),
  run: async (context: Context<Engine>, input) => {
    const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
    const after = input.cursor === undefined ? '' : String(decodeCursor(input.cursor, 1)[0]);
    const { ordinary } = context.engine.database;
    const rows = await readWebhooks(ordinary, context.tenant.id, { after, limit: limit + 1 });
    const page = rows.slice(0, limit);
    const webhooks = page.filter(({ queues }) => mayHandle(context, queues)).map(shownWebhook);
    return { webhooks, nextCursor: rows.length > limit ? encodeCursor([page.at(-1)!.name]) : undefined };
  },
});
