import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { metricOf, triggerInput } from './trigger.js';
import { readWorkload, valueOf } from './workload.js';

/** How much of its metric a trigger's queues hold. Throws INVALID_ARGUMENT when the metric that is asked for is not the trigger's. */
export const getMetrics = defineOperation({
  name: 'GetMetrics',
  group: 'Queues',
  summary: 'How much work queues have',
  scopes: ['work', 'read'],
  http: [],
  input: Type.Object({ ...triggerInput, metricName: Type.Optional(Type.String()) }),
  output: Type.Object({ name: Type.String(), value: Type.Number() }),
  run: async (context: Context<Engine>, { scalerMetadata, metricName }) => {
    const { name } = metricOf(scalerMetadata);
    // The autoscaler may still ask for what the trigger measured before: another unit would be taken for it.
    if (metricName !== undefined && metricName !== name) throw invalidField('metricName', `must be ${name}`);
    return { name, value: valueOf(scalerMetadata, await readWorkload(context, scalerMetadata, 'recent')) };
  },
});
