import { setTimeout as pause } from 'node:timers/promises';
import { Type } from 'typebox';
import { byOf, recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { type ClosingAct, hasOlderTransactions, settleClosing } from './closing.js';
import { LOCK_DEAD_LETTERS } from './dead-letter-queue.js';
import { noSuchQueue, type Queue, readQueue } from './queue.js';
import { recordedQueue, recordedWhole } from './recorded.js';

const POLL_MS = 20;
const PATIENCE_MS = 10_000;

export const deleteQueue = defineOperation({
  name: 'DeleteQueue',
  group: 'Queues',
  summary: 'Delete a queue',
  description:
    'Refused (409) while a job is scheduled, ready, leased or dead, or another queue sends its dead jobs here. With `force` the ' +
    'queue and all of its jobs are gone at once for every reader; storage is freed in the background. A queue made later under ' +
    'the same name is a new one.',
  scopes: ['manage'],
  http: [{ method: 'DELETE', path: '/v1/queues/:queue' }],
  input: Type.Object({
    queue: queueName,
    force: Type.Optional(
      Type.Boolean({ description: 'Delete whatever is in it, and references to it. Default false.' }),
    ),
  }),
  output: Type.Object({ name: Type.String({ description: 'The queue that is deleted.' }) }),
  run: async (context: Context<Engine>, input) => {
    if (input.force === true) await deleteWithJobs(context, input.queue);
    else await deleteEmpty(context, input.queue);
    return { name: input.queue };
  },
});

async function deleteWithJobs(context: Context<Engine>, name: string): Promise<void> {
  const { engine, tenant } = context;
  const changed = await engine.database.ordinary.transaction(async (connection) => {
    await connection.query(LOCK_DEAD_LETTERS, [tenant.id]);
    const target = await find(connection, tenant.id, name);
    const before = recordedWhole(target.queue);
    await recordAct(connection, context, { action: 'DeleteQueue', target: recordedQueue(name), before });
    const referrers = await connection.query<{ id: number; name: string }>(CLEAR_REFERENCES, [target.id]);
    if (!referrers.every((referrer) => context.mayUse(referrer.name))) {
      throw new ServiceError('PERMISSION_DENIED', 'a queue that this key may not use sends its dead jobs to this one');
    }
    await connection.query(CLOSE, [target.id, false, null]);
    return [target.id, ...referrers.map(({ id }) => id)];
  });
  for (const id of changed) engine.wakeups.changed(id);
}

/** See closing.ts for why this takes three steps. */
async function deleteEmpty(context: Context<Engine>, name: string): Promise<void> {
  const { engine } = context;
  const { ordinary } = engine.database;
  const id = await ordinary.transaction((connection) => closeEmpty(connection, context, name));
  engine.wakeups.changed(id);
  const passed = await olderTransactionsEnded(engine);
  const deleted = passed && (await settleClosing(ordinary, id));
  if (!passed) await ordinary.query(REOPEN, [id]);
  engine.wakeups.changed(id);
  if (deleted) return context.acted({ action: 'DeleteQueue', target: recordedQueue(name) });
  engine.wakeups.ready([id]);
  if (passed) throw conflict('a job came into the queue');
  throw new ServiceError('UNAVAILABLE', 'a transaction that may still enqueue has not ended: try again', {
    retryAfter: 5,
  });
}

/** Step 1; answers the queue's id. */
async function closeEmpty(connection: Connection, context: Context<Engine>, name: string): Promise<number> {
  const { tenant } = context;
  await connection.query(LOCK_DEAD_LETTERS, [tenant.id]);
  const { id, referrer, queue } = await find(connection, tenant.id, name);
  if (referrer !== null) {
    throw conflict(`${context.mayUse(referrer) ? referrer : 'another queue'} sends its dead jobs to this queue`);
  }
  const state = (['scheduled', 'ready', 'leased', 'dead'] as const).find((each) => queue.counts[each] > 0);
  if (state !== undefined) throw conflict(`the queue holds ${state} jobs`);
  const act: ClosingAct = { by: byOf(context), name, before: recordedWhole(queue) };
  await connection.query(CLOSE, [id, true, JSON.stringify(act)]);
  return id;
}

async function olderTransactionsEnded({ database }: Engine): Promise<boolean> {
  const [clock] = await database.ordinary.query<{ now: number }>(NOW);
  for (const started = performance.now(); performance.now() - started < PATIENCE_MS; await pause(POLL_MS)) {
    if (!(await hasOlderTransactions(database.ordinary, clock!.now))) return true;
  }
  return false;
}

interface Target {
  readonly id: number;
  readonly referrer: string | null;
  readonly queue: Queue;
}

async function find(connection: Connection, tenantId: string, name: string): Promise<Target> {
  const [target] = await connection.query<Omit<Target, 'queue'>>(FIND, [tenantId, name]);
  if (target === undefined) throw noSuchQueue();
  return { ...target, queue: (await readQueue(connection, tenantId, name)).queue };
}

function conflict(reason: string): ServiceError {
  return new ServiceError('CONFLICT', `${reason}: the queue cannot be deleted without force`);
}

// Locks the queue's row until the transaction ends; indexes queue_name and queue_dead_letter.
const FIND: Statement = {
  name: 'queue-delete-find',
  text: `select q.id, (select r.name from queue r where r.dead_letter_queue_id = q.id limit 1) as referrer
from queue q
where q.tenant_id = $1::uuid and q.name = $2 and q.closed_at is null
for no key update of q`,
};

// Under LOCK_DEAD_LETTERS, so that no other reference comes meanwhile; index queue_dead_letter.
const CLEAR_REFERENCES: Statement = {
  name: 'queue-delete-clear-references',
  text: `update queue
set dead_letter_queue_id = null, updated_at = clock_timestamp()
where dead_letter_queue_id = $1::int
returning id, name`,
};

// A queue that is closed for good keeps no reference, or it would hold up the deletion of the queue it names.
const CLOSE: Statement = {
  name: 'queue-delete-close',
  text: `update queue
set closed_at = clock_timestamp(), closing = $2::boolean, closing_act = $3::jsonb,
  dead_letter_queue_id = case when $2::boolean then dead_letter_queue_id end
where id = $1::int and closed_at is null`,
};

const REOPEN: Statement = {
  name: 'queue-delete-reopen',
  text: `update queue
set closed_at = null, closing = false, closing_act = null
where id = $1::int and closing`,
};

const NOW: Statement = {
  name: 'queue-delete-now',
  text: `select (extract(epoch from clock_timestamp()) * 1000000)::float8 as now`,
};
