import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { v7 } from 'uuid';
import { recordAct } from '../../src/audit/record-act.js';
import type { Act } from '../../src/core/operation.js';
import { deleteQueue } from '../../src/queues/delete.js';
import { putQueue } from '../../src/queues/put.js';
import { createDeleteQueues } from '../../src/tasks/delete-queues.js';
import { createPruneAudit } from '../../src/tasks/prune-audit.js';
import { contextOf } from '../helpers/context.js';
import { openRoom, place, type Room, until } from '../queues/room.js';

const SOURCES = new URL('../../../src/', import.meta.url);
let room: Room;
before(async () => (room = await openRoom()));
after(() => room.close());

const events = (action: string): Promise<any[]> =>
  room.sql('select * from audit_event where action = $1 order by id', [action]);

test('nothing in the service changes an event: one statement writes them, one prunes them', () => {
  const touching = readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => {
      const text = readFileSync(new URL(name, SOURCES), 'utf8');
      const found = text.match(
        /(insert into|update|delete from|truncate( table)?|alter table)\s+(only\s+)?audit_event\b/g,
      );
      return (found ?? []).map((words) => `${name.replaceAll('\\', '/')}: ${words}`);
    });
  assert.deepEqual(touching.toSorted(), [
    'audit/record-act.ts: insert into audit_event',
    'tasks/prune-audit.ts: delete from audit_event',
  ]);
});

test('an act that is rolled back leaves no event', async () => {
  const context = contextOf(room.engine, room.tenant);
  const rolledBack = room.engine.database.ordinary.transaction(async (connection) => {
    await recordAct(connection, context, { action: 'RolledBack', target: 'queue mail' });
    throw new Error('and then it fails');
  });
  await assert.rejects(rolledBack, /then it fails/);
  assert.deepEqual(await events('RolledBack'), []);
});

test('an event says in whose log it is: the caller’s, another tenant’s, or no tenant’s', async () => {
  const told: Act[] = [];
  const acted = ({ action, target }: Act): void => void told.push({ action, target });
  const { ordinary } = room.engine.database;
  const other = v7();
  const context = contextOf(room.engine, room.tenant, { acted });
  await recordAct(ordinary, context, { action: 'Whose', target: 'one' });
  await recordAct(ordinary, context, { action: 'Whose', target: 'two', tenantId: other });
  await recordAct(ordinary, context, { action: 'Whose', target: 'three', tenantId: null });
  await recordAct(ordinary, contextOf(room.engine, undefined), { action: 'Whose', target: 'four' });
  assert.deepEqual(
    (await events('Whose')).map(({ target, tenant_id }) => [target, tenant_id]),
    [
      ['one', room.tenant.id],
      ['two', other],
      ['three', null],
      ['four', null],
    ],
  );
  assert.deepEqual(
    told,
    ['one', 'two', 'three'].map((target) => ({ action: 'Whose', target })),
  );
});

test('ids follow the database’s clock to the microsecond', async () => {
  const context = contextOf(room.engine, room.tenant);
  await room.engine.database.ordinary.transaction(async (connection) => {
    for (let n = 0; n < 50; n += 1) await recordAct(connection, context, { action: 'Ordered', target: String(n) });
  });
  const found = await events('Ordered');
  assert.deepEqual(
    found.map(({ target }) => target),
    Array.from({ length: 50 }, (_, n) => String(n)),
  );
  for (const { id, at } of found) {
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
    assert.equal(Number.parseInt(id.replace('-', '').slice(0, 12), 16), (at as Date).getTime());
  }
});

test('events go when they are past their days, the oldest first, so many a run, and no other', async () => {
  await room.sql(
    `insert into audit_event (id, at, action, target, actor_kind, actor_id, actor_name, request_id, address)
    select gen_random_uuid(), clock_timestamp() - n * interval '1 day', 'Aged', n::text, 'root', 'root', 'root', '', ''
    from generate_series(27, 33) n, generate_series(1, 500)`,
  );
  const task = createPruneAudit(30);
  assert.deepEqual(await task.run(room.engine), { counts: { events: 2000 }, again: true });
  const left = async (): Promise<object> => {
    const rows = await room.sql('select target, count(*)::int from audit_event where action = $1 group by 1', ['Aged']);
    return Object.fromEntries(rows.map(({ target, count }) => [target, count]));
  };
  assert.deepEqual(await left(), { 27: 500, 28: 500, 29: 500 });
  assert.deepEqual(await task.run(room.engine), { counts: { events: 0 }, again: false });
  assert.deepEqual(await left(), { 27: 500, 28: 500, 29: 500 });
});

test('a deletion whose instance died is recorded by whoever finishes it, as the act of who began it', async () => {
  await room.call(putQueue, { queue: 'g' });
  const id = await room.queueId('g');
  const { ordinary } = room.engine.database;
  const dying = {
    ...room.engine,
    database: {
      ...room.engine.database,
      // Step 1 is a transaction; what comes after finds the process dead.
      ordinary: {
        transaction: ordinary.transaction.bind(ordinary),
        query: () => Promise.reject(new Error('dead')),
      } as unknown as typeof ordinary,
    },
  };
  const context = contextOf(dying, room.tenant, { requestId: 'the-one' });
  await assert.rejects(deleteQueue.run(context, { queue: 'g' } as never), /dead/);
  assert.deepEqual(await events('DeleteQueue'), []);
  await room.sql(`update queue set closed_at = now() - interval '2 minutes' where id = $1`, [id]);
  const task = createDeleteQueues();
  while ((await task.run(room.engine)).again);
  const [event, ...more] = await events('DeleteQueue');
  assert.deepEqual(more, []);
  assert.deepEqual(
    [event.target, event.tenant_id, event.actor_id, event.request_id, event.before.name],
    ['queue g', room.tenant.id, context.caller.id, 'the-one', 'g'],
  );
});

test('a deletion that is taken back is not recorded', async () => {
  await room.call(putQueue, { queue: 'h' });
  const id = await room.queueId('h');
  const before = (await events('DeleteQueue')).length;
  let deleting: Promise<unknown> = Promise.resolve();
  // A transaction that began before the deletion, as an enqueue that still saw the queue open.
  const held = room.engine.database.ordinary.transaction(async (connection) => {
    await connection.query({ name: 'test-now', text: 'select now()' });
    deleting = assert.rejects(room.call(deleteQueue, { queue: 'h' }), { code: 'CONFLICT' });
    await until(async () => (await room.sql('select closing from queue where id = $1', [id]))[0]!.closing);
    await place(room, 'ready', { queueId: id });
  });
  await held;
  await deleting;
  assert.equal((await events('DeleteQueue')).length, before);
  assert.equal((await room.sql('select closing_act from queue where id = $1', [id]))[0]!.closing_act, null);
});
