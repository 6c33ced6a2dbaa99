import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockWebhook } from './read-webhooks.js';
import { recordedName, recordedSetUp } from './recorded.js';
import { webhookName } from './webhook.js';

export const deleteWebhook = defineOperation({
  name: 'DeleteWebhook',
  group: 'Events',
  summary: 'Delete a webhook',
  description: 'With all of its deliveries; those under way end as they may.',
  scopes: ['manage'],
  http: [{ method: 'DELETE', path: '/v1/webhooks/:name' }],
  input: Type.Object({ name: webhookName }),
  output: Type.Object({ name: Type.String({ description: 'The webhook that is deleted.' }) }),
  run: async (context: Context<Engine>, { name }) => {
    const { engine, tenant } = context;
    const queueId = await engine.database.ordinary.transaction(async (connection) => {
      const row = await lockWebhook(connection, context, name);
      const act = { action: 'DeleteWebhook', target: recordedName(name), before: recordedSetUp(row) };
      await recordAct(connection, context, act);
      await connection.query(DELETE, [tenant.id, row.id]);
      await connection.query(CLOSE_QUEUE, [row.queueId]);
      return row.queueId;
    });
    engine.wakeups.changed(queueId);
    return { name };
  },
});

// The row is locked; its alerts go with it.
const DELETE: Statement = {
  name: 'webhook-delete',
  text: `delete from webhook where tenant_id = $1::uuid and id = $2::uuid`,
};

// The deletion of queues takes what is in it.
const CLOSE_QUEUE: Statement = {
  name: 'webhook-delete-queue',
  text: `update queue set closed_at = clock_timestamp() where id = $1::int and closed_at is null`,
};
