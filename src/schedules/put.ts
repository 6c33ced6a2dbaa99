import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { findSchedule, lockSchedule, readSchedule } from './read-schedules.js';
import { recordedName, recordedSetUp } from './recorded.js';
import { Schedule, type ScheduleRow, shownSchedule, timingOf } from './schedule.js';
import { EXCLUSIVE_PAYLOAD, EXCLUSIVE_TIMING, scheduleFields, scheduleName, UTC } from './schedule-fields.js';
import { refuseScheduleBeyond } from './schedule-quota.js';
import { storeSchedule } from './store-schedule.js';
import { type Template, templateOf } from './template.js';
import { checkTiming, needsTiming, sameTiming, type Timing } from './timing.js';

const Input = Type.Object(
  { name: scheduleName, ...scheduleFields },
  { 'x-exclusive': [EXCLUSIVE_TIMING, EXCLUSIVE_PAYLOAD] },
);
type Input = Static<typeof Input>;

export const putSchedule = defineOperation({
  name: 'PutSchedule',
  group: 'Schedules',
  summary: 'Create or replace a schedule',
  description:
    'Replaces it whole: what is not given is at its default, but for `paused`, which stays. A schedule that could never fire is refused. ' +
    'While `cron`, `every`, `timeZone`, `startAt` and `endAt` stay as they are, so do its instants; a change begins anew from now. Its ' +
    'queue is made when there is none, unless the tenant was made with `autoCreateQueues: false`.',
  scopes: ['manage'],
  http: [{ method: 'PUT', path: '/v1/schedules/:name' }],
  input: Input,
  output: Schedule,
  example: {
    cron: '30 2 * * *',
    timeZone: 'Europe/Kyiv',
    queue: 'reports',
    kind: 'nightly',
    payload: { scope: 'yesterday' },
    overlap: 'skip',
  },
  run: async (context: Context<Engine>, input): Promise<Schedule> => {
    if (input.cron === undefined && input.every === undefined) throw needsTiming();
    const { engine, tenant } = context;
    const { ordinary } = engine.database;
    const [clock] = await ordinary.query<{ now: number }>(NOW);
    const { now } = clock!;
    checkTiming(timingFrom(input, now), now);
    const queue = await engine.queues.find(tenant.id, input.queue);
    const template = templateOf(context, input, { queue, now });
    if (queue === undefined) await makeQueue(context, input.queue);
    return ordinary.transaction((connection) => put(connection, context, { input, template, now }));
  },
});

function timingFrom({ cron, every, timeZone = UTC, startAt, endAt }: Input, now: number): Timing {
  return { cron, every, timeZone, anchor: startAt ?? now, startAt, endAt };
}

async function makeQueue({ engine, tenant }: Context<Engine>, name: string): Promise<void> {
  if (!tenant.autoCreateQueues) {
    const message = 'names no queue';
    throw new ServiceError('NOT_FOUND', `queue ${message}`, { fields: [{ field: 'queue', message }] });
  }
  const { id } = await engine.queues.findOrCreate(tenant, name);
  engine.wakeups.changed(id);
}

interface Put {
  readonly input: Input;
  readonly template: Template;
  readonly now: number;
}

async function put(connection: Connection, context: Context<Engine>, { input, template, now }: Put): Promise<Schedule> {
  const { tenant } = context;
  await refuseScheduleBeyond(connection, { tenantId: tenant.id, most: tenant.limits.schedules }, input.name);
  const before = await lockIfThere(connection, context, input.name);
  const timing = timingFrom(input, now);
  const isKept = before !== undefined && sameTiming(timingOf(before), timing);
  const kept = isKept ? { ...timing, anchor: before.anchor } : timing;
  const paused = input.paused ?? before?.paused ?? false;
  await storeSchedule(connection, {
    tenantId: tenant.id,
    input,
    template,
    timing: kept,
    paused,
    // An instant that is due and has not fired is not lost by a change of something else.
    next: isKept && !before.paused ? undefined : checkTiming(kept, now).first,
  });
  const after = await readSchedule(connection, context, input.name);
  await record(connection, context, { before, after });
  return shownSchedule(after);
}

/** Throws NOT_FOUND when it makes jobs in a queue that the caller may not use. */
async function lockIfThere(
  connection: Connection,
  context: Context<Engine>,
  name: string,
): Promise<ScheduleRow | undefined> {
  if ((await findSchedule(connection, context.tenant.id, name)) === undefined) return undefined;
  return lockSchedule(connection, context, name);
}

/** Into the audit log, unless all is as it was. */
async function record(
  connection: Connection,
  context: Context<Engine>,
  { before, after }: { readonly before: ScheduleRow | undefined; readonly after: ScheduleRow },
): Promise<void> {
  if (before?.revision === after.revision) return;
  await recordAct(connection, context, {
    action: 'PutSchedule',
    target: recordedName(after.name),
    before: before === undefined ? undefined : recordedSetUp(before),
    after: recordedSetUp(after),
  });
}

// Reads no tenant's data.
const NOW: Statement = {
  name: 'schedule-now',
  text: `select (extract(epoch from clock_timestamp()) * 1000000)::float8 as now`,
};
