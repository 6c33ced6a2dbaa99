import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { readSchedule } from './read-schedules.js';
import { Schedule, shownSchedule } from './schedule.js';
import { scheduleName } from './schedule-fields.js';

export const getSchedule = defineOperation({
  name: 'GetSchedule',
  group: 'Schedules',
  summary: 'Get a schedule with its state and its next five runs',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/schedules/:name' }],
  input: Type.Object({ name: scheduleName }),
  output: Schedule,
  run: async (context: Context<Engine>, { name }) =>
    shownSchedule(await readSchedule(context.engine.database.ordinary, context, name)),
});
