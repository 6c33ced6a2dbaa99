import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { metricOf, triggerInput } from './trigger.js';

/** What a trigger measures, and how much of it one worker is for. Asks the database nothing. */
export const getMetricSpec = defineOperation({
  name: 'GetMetricSpec',
  group: 'Queues',
  summary: 'What is measured, and how much of it one worker is for',
  scopes: ['work', 'read'],
  http: [],
  input: Type.Object(triggerInput),
  output: Type.Object({ name: Type.String(), target: Type.Number() }),
  run: (_context: Context<Engine>, { scalerMetadata }) => Promise.resolve(metricOf(scalerMetadata)),
});
