import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration } from '../core/wire.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockWebhook, readWebhook } from './read-webhooks.js';
import { recordedName } from './recorded.js';
import { newSigningSecret } from './signing.js';
import { shownWebhook, Webhook, webhookName } from './webhook.js';

const DAY_MS = 86_400_000;

const Input = Type.Object({
  name: webhookName,
  overlap: Type.Optional(
    Duration({
      minimum: 0,
      maximum: 30 * DAY_MS,
      description: 'How long deliveries are signed with the secret of before as well. Default 24h; 0s ends it at once.',
    }),
  ),
});

export const rotateWebhookSecret = defineOperation({
  name: 'RotateWebhookSecret',
  group: 'Events',
  summary: 'Give a webhook a new secret',
  description:
    'The answer holds it, never again. During the overlap each delivery bears two signatures, so that a receiver that knows either secret verifies it.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/webhooks/:name/rotate' }],
  input: Input,
  output: Webhook,
  example: { overlap: '1h' },
  run: async (context: Context<Engine>, { name, overlap = DAY_MS }): Promise<Webhook> => {
    const { engine, tenant } = context;
    const row = await engine.database.ordinary.transaction(async (connection) => {
      const { id } = await lockWebhook(connection, context, name);
      await connection.query(ROTATE, [tenant.id, id, newSigningSecret(), overlap]);
      await recordAct(connection, context, { action: 'RotateWebhookSecret', target: recordedName(name) });
      return readWebhook(connection, context, name);
    });
    return { ...shownWebhook(row), secret: row.secret };
  },
});

// The row is locked. A rotation within an overlap ends the older secret: there are two at most.
const ROTATE: Statement = {
  name: 'webhook-rotate',
  text: `update webhook
set previous_secret = case when $4::float8 > 0 then secret end,
  previous_until = case when $4::float8 > 0 then clock_timestamp() + $4::float8 * interval '1 millisecond' end,
  secret = $3, updated_at = clock_timestamp()
where tenant_id = $1::uuid and id = $2::uuid`,
};
