import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { readWebhook } from './read-webhooks.js';
import { shownWebhook, Webhook, webhookName } from './webhook.js';

export const getWebhook = defineOperation({
  name: 'GetWebhook',
  group: 'Events',
  summary: 'Get a webhook with the state of its deliveries',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/webhooks/:name' }],
  input: Type.Object({ name: webhookName }),
  output: Webhook,
  run: async (context: Context<Engine>, { name }) =>
    shownWebhook(await readWebhook(context.engine.database.ordinary, context, name)),
});
