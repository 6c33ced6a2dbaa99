import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Engine } from '../hotpath/engine.js';
import { ShownRun } from './schedule.js';
import { EXCLUSIVE_TIMING, timingFields, UTC } from './schedule-fields.js';
import { checkTiming, needsTiming, shownRuns, upcoming } from './timing.js';

const RUNS = 10;

const Input = Type.Object(timingFields, { 'x-exclusive': [EXCLUSIVE_TIMING] });

export const previewSchedule = defineOperation({
  name: 'PreviewSchedule',
  group: 'Schedules',
  summary: 'Show the next ten runs of a schedule that is not there yet',
  description: 'Stores nothing. What a schedule would be refused for is refused here in the same words.',
  scopes: ['read'],
  http: [{ method: 'POST', path: '/v1/schedules/preview' }],
  input: Input,
  output: Type.Object({ runs: Type.Array(ShownRun) }),
  example: { cron: '30 2 * * *', timeZone: 'Europe/Kyiv' },
  run: ({ engine }: Context<Engine>, input: Static<typeof Input>) => {
    if (input.cron === undefined && input.every === undefined) throw needsTiming();
    const { cron, every, timeZone = UTC, startAt, endAt } = input;
    const now = engine.clock.now();
    const { instants } = checkTiming({ cron, every, timeZone, anchor: startAt ?? now, startAt, endAt }, now);
    return Promise.resolve({ runs: shownRuns(upcoming(instants, now, RUNS), timeZone) });
  },
});
