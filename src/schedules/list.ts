import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { decodeCursor, DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import type { Engine } from '../hotpath/engine.js';
import { readSchedules } from './read-schedules.js';
import { listedSchedule, Schedule } from './schedule.js';

export const listSchedules = defineOperation({
  name: 'ListSchedules',
  group: 'Schedules',
  summary: 'List schedules with their state',
  description:
    'In the order of their names (by byte), without payloads and coming runs. A schedule made while you page is met if its name comes after your cursor.',
  scopes: ['read'],
  http: [{ method: 'GET', path: '/v1/schedules' }],
  input: Type.Object(pageInput),
  output: Type.Object({ schedules: Type.Array(Schedule), nextCursor: Type.Optional(Type.String()) }),
  run: async (context: Context<Engine>, input) => {
    const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
    const after = input.cursor === undefined ? '' : String(decodeCursor(input.cursor, 1)[0]);
    const rows = await readSchedules(context.engine.database.ordinary, context, { after, limit: limit + 1 });
    const schedules = rows.slice(0, limit).map(listedSchedule);
    return rows.length <= limit ? { schedules } : { schedules, nextCursor: encodeCursor([schedules.at(-1)!.name]) };
  },
});
