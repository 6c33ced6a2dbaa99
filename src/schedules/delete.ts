import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { lockSchedule } from './read-schedules.js';
import { recordedName, recordedSetUp } from './recorded.js';
import { scheduleName } from './schedule-fields.js';

export const deleteSchedule = defineOperation({
  name: 'DeleteSchedule',
  group: 'Schedules',
  summary: 'Delete a schedule',
  description: 'It fires no more from the answer on. Jobs that it has made stay.',
  scopes: ['manage'],
  http: [{ method: 'DELETE', path: '/v1/schedules/:name' }],
  input: Type.Object({ name: scheduleName }),
  output: Type.Object({ name: Type.String({ description: 'The schedule that is deleted.' }) }),
  run: async (context: Context<Engine>, { name }) => {
    await context.engine.database.ordinary.transaction(async (connection) => {
      const row = await lockSchedule(connection, context, name);
      await recordAct(connection, context, {
        action: 'DeleteSchedule',
        target: recordedName(name),
        before: recordedSetUp(row),
      });
      await connection.query(DELETE, [context.tenant.id, row.id]);
    });
    return { name };
  },
});

// Its row is locked by the transaction, so no instance is firing it. Primary keys.
const DELETE: Statement = {
  name: 'schedule-delete',
  text: `with gone as (
  delete from schedule where tenant_id = $1::uuid and id = $2::uuid returning id
)
delete from schedule_fire where schedule_id = (select id from gone)`,
};
