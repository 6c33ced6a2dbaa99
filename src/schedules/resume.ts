import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { CronFault } from './cron.js';
import { lockSchedule, readSchedule } from './read-schedules.js';
import { recordedName } from './recorded.js';
import { Schedule, type ScheduleRow, shownSchedule, timingOf } from './schedule.js';
import { scheduleName } from './schedule-fields.js';
import { instantsOf } from './timing.js';

export const resumeSchedule = defineOperation({
  name: 'ResumeSchedule',
  group: 'Schedules',
  summary: 'Fire a paused schedule again',
  description:
    'From its first instant after now. Resuming a schedule that is not paused changes nothing; one that would never fire again is 409.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/schedules/:name/resume' }],
  input: Type.Object({ name: scheduleName }),
  output: Schedule,
  run: (context: Context<Engine>, { name }) =>
    context.engine.database.ordinary.transaction(async (connection) => {
      const before = await lockSchedule(connection, context, name);
      if (!before.paused) return shownSchedule(before);
      await connection.query(RESUME, [context.tenant.id, before.id, firstOf(before)]);
      await recordAct(connection, context, {
        action: 'ResumeSchedule',
        target: recordedName(name),
        before: '{"paused":true}',
        after: '{"paused":false}',
      });
      return shownSchedule(await readSchedule(connection, context, name));
    }),
});

function firstOf(row: ScheduleRow): number {
  try {
    const first = instantsOf(timingOf(row))(row.now);
    if (first !== undefined) return first;
  } catch (error) {
    if (!(error instanceof CronFault)) throw error;
    throw new ServiceError('CONFLICT', `the schedule cannot fire: ${error.message}`);
  }
  throw new ServiceError('CONFLICT', 'the schedule would never fire again: its endAt has passed');
}

// The row is locked by the transaction.
const RESUME: Statement = {
  name: 'schedule-resume',
  text: `update schedule
set paused_at = null, next_fire_at = given.next, look_at = given.next, revision = revision + 1, failures = 0, error = null,
  error_at = null, updated_at = clock_timestamp()
from (select timestamptz 'epoch' + $3::bigint * interval '1 microsecond' as next) given
where tenant_id = $1::uuid and id = $2::uuid`,
};
