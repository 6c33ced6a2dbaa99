import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { createDeleteQueues } from '../../src/tasks/delete-queues.js';
import { createDeleteTenants } from '../../src/tasks/delete-tenants.js';
import { openRoom, place, type Room } from '../queues/room.js';

let room: Room;
let tenant: string;
before(async () => (room = await openRoom()));
after(() => room.close());
beforeEach(async () => {
  tenant = randomUUID();
  await room.sql('insert into tenant (id, name) values ($1, $2)', [tenant, `t-${tenant}`]);
});

/** Queues of the tenant, each sending its dead to the one before it. */
async function addQueues(count: number): Promise<number[]> {
  const rows = await room.sql<{ id: number }>(
    `insert into queue (tenant_id, name) select $1::uuid, 'q' || n from generate_series(1, $2::int) n returning id`,
    [tenant, count],
  );
  await room.sql(
    `update queue
     set dead_letter_queue_id = before.id
     from queue before
     where queue.tenant_id = $1 and before.tenant_id = $1 and before.id = queue.id - 1`,
    [tenant],
  );
  return rows.map(({ id }) => id);
}

const addKeys = (count: number): Promise<unknown> =>
  room.sql(
    `insert into api_key (id, tenant_id, name, secret_hash, scopes)
     select gen_random_uuid(), $1::uuid, 'k' || n, sha256(($1 || n::text)::bytea), '{read}' from generate_series(1, $2::int) n`,
    [tenant, count],
  );

const close = (): Promise<unknown> =>
  room.sql('update tenant set closed_at = clock_timestamp() where id = $1', [tenant]);

/** What of the tenant is left. */
async function left(): Promise<{ tenants: number; open: number; queues: number; keys: number; jobs: number }> {
  const [row] = await room.sql(
    `select (select count(*)::int from tenant where id = $1) as tenants,
       (select count(*)::int from queue where tenant_id = $1 and closed_at is null) as open,
       (select count(*)::int from queue where tenant_id = $1) as queues,
       (select count(*)::int from api_key where tenant_id = $1) as keys,
       (select count(*)::int from job join queue on queue.id = job.queue_id where tenant_id = $1) as jobs`,
    [tenant],
  );
  return row;
}

/** Runs the tasks of a fresh instance in turn until nothing is left; answers in how many rounds. */
async function finish(): Promise<number> {
  const tasks = [createDeleteTenants(), createDeleteQueues()];
  for (let round = 1; round <= 200; round += 1) {
    for (const task of tasks) await task.run(room.engine);
    if ((await left()).tenants === 0) return round;
  }
  assert.fail(`something is left: ${JSON.stringify(await left())}`);
}

test('a tenant that is not closed keeps everything', async () => {
  await addQueues(3);
  await addKeys(3);
  const before = await left();
  await createDeleteTenants().run(room.engine);
  await createDeleteQueues().run(room.engine);
  assert.deepEqual(await left(), before);
});

test('queues and keys are taken in chunks, one of each tenant a run, and more of the same is said to wait', async () => {
  await addQueues(1_200);
  await addKeys(700);
  await close();
  const task = createDeleteTenants();
  const run = async () => {
    const { counts, again } = await task.run(room.engine);
    return { queues: counts['queues'], keys: counts['keys'], tenants: counts['tenants'], again };
  };
  assert.deepEqual(await run(), { queues: 500, keys: 500, tenants: 0, again: true });
  assert.deepEqual(await left(), { tenants: 1, open: 700, queues: 1_200, keys: 200, jobs: 0 });
  assert.deepEqual(await run(), { queues: 500, keys: 200, tenants: 0, again: true });
  assert.equal((await run()).tenants, 0);
  assert.deepEqual([(await left()).open, (await left()).keys], [0, 0]);
});

test('what an instance began, however far it came, a fresh one finishes', async () => {
  const [first] = await addQueues(5);
  await addKeys(2);
  for (const where of ['ready', 'scheduled', 'lease', 'dead', 'finished'] as const) {
    await place(room, where, { queueId: first!, count: 20, ...(where === 'ready' ? {} : { kind: where }) });
  }
  await place(room, 'ready', { queueId: first!, key: 'key', expiresAt: '2101-01-01T00:00:00Z' });
  await close();
  // Each stop is one statement further than the one before.
  const statements = ['delete-tenants-queues', 'delete-tenants-keys', 'delete-queues-chunk', 'delete-queues-row'];
  for (const last of statements) {
    await assert.rejects(runUntil(last), /killed/);
    assert.equal((await left()).tenants, 1);
  }
  await finish();
  assert.deepEqual(await left(), { tenants: 0, open: 0, queues: 0, keys: 0, jobs: 0 });
  for (const table of ['ready', 'scheduled', 'lease', 'dead', 'finished', 'idempotency', 'queue_count']) {
    assert.deepEqual(await room.sql(`select from ${table} where queue_id = $1`, [first]), [], table);
  }
});

/** Runs both tasks as an instance that is killed after a statement of that name. */
async function runUntil(last: string): Promise<void> {
  const { tasks } = room.engine.database;
  const mortal = {
    query: async (...args: Parameters<typeof tasks.query>) => {
      const rows = await tasks.query(...args);
      if (args[0].name === last) throw new Error('killed');
      return rows;
    },
  };
  const engine = { ...room.engine, database: { ...room.engine.database, tasks: mortal } } as unknown as Room['engine'];
  await createDeleteTenants().run(engine);
  await createDeleteQueues().run(engine);
}

test('a queue that comes late, from an instance that has not heard, is taken too', async () => {
  await addQueues(1);
  await close();
  await createDeleteTenants().run(room.engine);
  const [late] = await room.sql<{ id: number }>(
    `insert into queue (tenant_id, name) values ($1, 'late') returning id`,
    [tenant],
  );
  await place(room, 'ready', { queueId: late!.id, count: 3 });
  await finish();
  assert.deepEqual(await left(), { tenants: 0, open: 0, queues: 0, keys: 0, jobs: 0 });
});

test('two instances at once finish it as one does, and the queues of others stay', async () => {
  const others = await room.sql<{ id: number }>(
    `insert into queue (tenant_id, name) select $1::uuid, 'kept-' || n from generate_series(1, 5) n returning id`,
    [room.tenant.id],
  );
  const queues = await addQueues(40);
  await place(room, 'ready', { queueId: queues[7]!, count: 200 });
  await place(room, 'dead', { queueId: others[0]!.id, count: 10 });
  await close();
  await Promise.all([finish(), finish()]);
  const kept = await room.sql('select closed_at from queue where tenant_id = $1', [room.tenant.id]);
  assert.ok(kept.length === 5 && kept.every(({ closed_at: closedAt }) => closedAt === null));
  assert.equal((await room.sql('select from dead where queue_id = $1', [others[0]!.id])).length, 10);
});
