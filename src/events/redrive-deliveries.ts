import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { choiceParameters } from '../queues/dead-filter.js';
import { redrive } from '../queues/redrive.js';
import { readWebhook } from './read-webhooks.js';
import { recordedName } from './recorded.js';
import { webhookName } from './webhook.js';

export const redriveDeliveries = defineOperation({
  name: 'RedriveDeliveries',
  group: 'Events',
  summary: 'Deliver again what was given up',
  description:
    'All deliveries that are dead when the call begins, under their ids of before, with eight attempts from now on and no end after 3 days.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/webhooks/:name/redrive' }],
  input: Type.Object({ name: webhookName }),
  output: Type.Object({ redriven: Type.Integer({ description: 'Deliveries that were put back.' }) }),
  run: async (context: Context<Engine>, { name }) => {
    const { engine } = context;
    const { queueId } = await readWebhook(engine.database.ordinary, context, name);
    const parameters = [queueId, ...choiceParameters({}), queueId, engine.clock.now()];
    const redriven = await redrive(engine, { parameters, rate: undefined }, (connection) =>
      recordAct(connection, context, { action: 'RedriveDeliveries', target: recordedName(name) }),
    );
    return { redriven };
  },
});
