import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { triggerInput } from './trigger.js';
import { isActive, readWorkload } from './workload.js';

/** Whether a trigger's queues have work. A queue that does not exist has none. */
export const isScalerActive = defineOperation({
  name: 'IsActive',
  group: 'Queues',
  summary: 'Whether queues have work, so that there have to be workers',
  scopes: ['work', 'read'],
  http: [],
  input: Type.Object(triggerInput),
  output: Type.Object({ active: Type.Boolean() }),
  run: async (context: Context<Engine>, { scalerMetadata }) => ({
    active: isActive(scalerMetadata, await readWorkload(context, scalerMetadata, 'recent')),
  }),
});
