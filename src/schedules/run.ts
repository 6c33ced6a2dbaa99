import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import type { KnownQueue } from '../hotpath/queue-directory.js';
import { EnqueuedJob } from '../jobs/enqueue.js';
import type { EnqueueItem } from '../jobs/enqueue-fields.js';
import { type Enqueued, insertUnits, QueueClosed } from '../jobs/enqueue-flush.js';
import { newJobId } from '../jobs/job-id.js';
import { runHeaders } from './fire-headers.js';
import { lockSchedule, readSchedule } from './read-schedules.js';
import { recordedName } from './recorded.js';
import type { ScheduleRow } from './schedule.js';
import { scheduleName } from './schedule-fields.js';

export const runSchedule = defineOperation({
  name: 'RunSchedule',
  group: 'Schedules',
  summary: 'Make a job of a schedule now',
  description:
    'Whatever its `overlap` says, and also when it is paused or in error. Its instants stay as they are. Each call makes a job of its own.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/schedules/:name/run', status: 201 }],
  input: Type.Object({ name: scheduleName }),
  output: EnqueuedJob,
  run: async (context: Context<Engine>, { name }) => {
    const { engine } = context;
    const found = await readSchedule(engine.database.ordinary, context, name);
    const queue = await queueOf(context, found.queue);
    const settle = context.spendJobs(1);
    try {
      const job = await engine.database.ordinary.transaction((connection) => run(connection, context, { name, queue }));
      settle(true);
      engine.wakeups.ready([queue.id]);
      return job;
    } catch (error) {
      settle(false);
      if (!(error instanceof QueueClosed)) throw error;
      engine.queues.forget([queue.id]);
      throw new ServiceError('UNAVAILABLE', 'the queue is being deleted', { retryAfter: 1 });
    }
  },
});

async function queueOf({ engine, tenant }: Context<Engine>, name: string): Promise<KnownQueue> {
  if (!tenant.autoCreateQueues) return engine.queues.get(tenant.id, name);
  const known = await engine.queues.find(tenant.id, name);
  const queue = known ?? (await engine.queues.findOrCreate(tenant, name));
  if (known === undefined) engine.wakeups.changed(queue.id);
  return queue;
}

async function run(
  connection: Connection,
  context: Context<Engine>,
  { name, queue }: { readonly name: string; readonly queue: KnownQueue },
): Promise<Enqueued> {
  const row = await lockSchedule(connection, context, name);
  if (row.queue !== queue.name) throw new ServiceError('CONFLICT', 'the schedule was changed meanwhile: try again');
  const item = itemOf(row, queue.id);
  const [jobs] = await insertUnits(connection, [[item]]);
  if (jobs instanceof Error) throw jobs;
  await connection.query(RAN, [context.tenant.id, row.id, item.id]);
  await recordAct(connection, context, {
    action: 'RunSchedule',
    target: recordedName(name),
    after: JSON.stringify({ job: item.id }),
  });
  return jobs![0]!;
}

function itemOf(row: ScheduleRow, queueId: number): EnqueueItem {
  return {
    id: newJobId(),
    queueId,
    rank: row.rank,
    payload: row.payload ?? undefined,
    size: row.size,
    kind: row.kind ?? undefined,
    contentType: row.contentType ?? undefined,
    isJson: row.isJson,
    headers: runHeaders(row.headers, row.name),
    delay: undefined,
    runAt: undefined,
    maxAttempts: row.maxAttempts ?? undefined,
    visibilityTimeout: row.visibilityTimeout ?? undefined,
    retry: row.retry === null ? undefined : JSON.stringify(row.retry),
    expiresAt: row.expiresAfter === null ? undefined : row.now + row.expiresAfter * 1_000,
    idempotency: undefined,
  };
}

// The row is locked by the transaction. The revision tells an instance that is just firing it that there is another last job.
const RAN: Statement = {
  name: 'schedule-ran',
  text: `update schedule set last_job_id = $3::uuid, revision = revision + 1 where tenant_id = $1::uuid and id = $2::uuid`,
};
