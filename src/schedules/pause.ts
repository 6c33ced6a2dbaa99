import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockSchedule, readSchedule } from './read-schedules.js';
import { recordedName } from './recorded.js';
import { Schedule, shownSchedule } from './schedule.js';
import { scheduleName } from './schedule-fields.js';

export const pauseSchedule = defineOperation({
  name: 'PauseSchedule',
  group: 'Schedules',
  summary: 'Stop firing a schedule',
  description:
    'Instants that pass meanwhile are not made up for. It can still be run by hand. Pausing a paused schedule changes nothing.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/schedules/:name/pause' }],
  input: Type.Object({ name: scheduleName }),
  output: Schedule,
  run: (context: Context<Engine>, { name }) =>
    context.engine.database.ordinary.transaction(async (connection) => {
      const before = await lockSchedule(connection, context, name);
      if (before.paused) return shownSchedule(before);
      await connection.query(PAUSE, [context.tenant.id, before.id]);
      await recordAct(connection, context, {
        action: 'PauseSchedule',
        target: recordedName(name),
        before: '{"paused":false}',
        after: '{"paused":true}',
      });
      return shownSchedule(await readSchedule(connection, context, name));
    }),
});

// The row is locked by the transaction.
const PAUSE: Statement = {
  name: 'schedule-pause',
  text: `update schedule
set paused_at = clock_timestamp(), next_fire_at = null, look_at = null, revision = revision + 1, updated_at = clock_timestamp()
where tenant_id = $1::uuid and id = $2::uuid`,
};
