import { randomUUID } from 'node:crypto';
import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration } from '../core/wire.js';
import type { Engine } from '../hotpath/engine.js';
import { eventBody } from './event-body.js';
import { readWebhook } from './read-webhooks.js';
import { recordedName } from './recorded.js';
import { signedHeaders } from './signing.js';
import { webhookName, type WebhookRow } from './webhook.js';
import { errorOf, isDelivered } from './verdict.js';

const ANY = { minimum: 0, maximum: Number.MAX_SAFE_INTEGER };

const Output = Type.Object({
  delivered: Type.Boolean({ description: 'Whether the endpoint has answered with a status of success.' }),
  status: Type.Optional(Type.Integer({ description: 'That of its answer, if there was one.' })),
  latency: Duration({ ...ANY, description: 'From the look-up of its name to the end of its answer.' }),
  error: Type.Optional(Type.String({ description: 'As in `lastError` of a webhook.' })),
});

export const testWebhook = defineOperation({
  name: 'TestWebhook',
  group: 'Events',
  summary: 'Deliver a test event at once',
  description:
    'An event of type `webhook.test`, whatever the webhook’s events, and also while it is paused, disabled or its circuit is open; it is tried once and changes none of that. Takes at most 10 s.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/webhooks/:name/test' }],
  input: Type.Object({ name: webhookName }),
  output: Output,
  run: async (context: Context<Engine>, { name }) => {
    const { engine } = context;
    const row = await engine.database.ordinary.transaction(async (connection) => {
      const found = await readWebhook(connection, context, name);
      await recordAct(connection, context, { action: 'TestWebhook', target: recordedName(name) });
      return found;
    });
    return deliver(context, row);
  },
});

async function deliver({ engine, departure }: Context<Engine>, row: WebhookRow) {
  const id = randomUUID();
  const at = engine.clock.now();
  const body = eventBody({ id, type: 'webhook.test', at, data: JSON.stringify({ webhook: row.name }) });
  const secrets = row.previousSecret === null ? [row.secret] : [row.secret, row.previousSecret];
  const started = performance.now();
  const answer = await engine.poster.tryOut({
    url: row.url,
    headers: signedHeaders({ id, body }, secrets),
    body,
    departure,
  });
  const latency = Math.round(performance.now() - started);
  const status = 'status' in answer ? answer.status : undefined;
  return { delivered: isDelivered(answer), status, latency, error: errorOf(answer) };
}
