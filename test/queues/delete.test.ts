import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { deleteQueue } from '../../src/queues/delete.js';
import { getQueue } from '../../src/queues/get.js';
import { putQueue } from '../../src/queues/put.js';
import { createDeleteQueues } from '../../src/tasks/delete-queues.js';
import { openRoom, place, type Room, until } from './room.js';

let room: Room;
before(async () => (room = await openRoom()));
after(() => room.close());

async function queueWith(name: string): Promise<number> {
  await room.call(putQueue, { queue: name });
  return room.queueId(name);
}

const rowOf = async (queueId: number) =>
  (await room.sql('select closed_at, closing from queue where id = $1', [queueId]))[0];
const runAll = async () => {
  const task = createDeleteQueues();
  while ((await task.run(room.engine)).again);
};

test('a queue is not deleted while a job is scheduled, ready, leased or dead', async () => {
  for (const where of ['scheduled', 'ready', 'lease', 'dead'] as const) {
    const queueId = await queueWith(where);
    await place(room, where, { queueId });
    await assert.rejects(room.call(deleteQueue, { queue: where }), { code: 'CONFLICT' });
    assert.equal((await room.call(getQueue, { queue: where })).name, where);
  }
});

test('a queue with finished jobs only is deleted, and one of the same name is a new one', async () => {
  const queueId = await queueWith('a');
  const [id] = await place(room, 'finished', { queueId, key: 'k' });
  assert.deepEqual(await room.call(deleteQueue, { queue: 'a' }), { name: 'a' });
  await assert.rejects(room.call(getQueue, { queue: 'a' }), { code: 'NOT_FOUND' });
  await assert.rejects(room.call(deleteQueue, { queue: 'a' }), { code: 'NOT_FOUND' });
  assert.notEqual(await queueWith('a'), queueId);
  await runAll();
  assert.equal(await rowOf(queueId), undefined);
  for (const [table, column] of [
    ['job', 'id'],
    ['finished', 'job_id'],
    ['attempt', 'job_id'],
    ['idempotency', 'job_id'],
  ]) {
    assert.equal((await room.sql(`select from ${table} where ${column} = $1`, [id])).length, 0);
  }
  assert.equal((await room.sql('select from queue_count where queue_id = $1', [queueId])).length, 0);
});

test('with force everything goes: at once for readers, the rows in the background', async () => {
  const queueId = await queueWith('b');
  for (const where of ['scheduled', 'ready', 'lease', 'dead', 'finished'] as const) {
    await place(room, where, { queueId, count: 3, expiresAt: '2091-01-01T00:00:00Z' });
  }
  await room.call(deleteQueue, { queue: 'b', force: true });
  await assert.rejects(room.call(getQueue, { queue: 'b' }), { code: 'NOT_FOUND' });
  await runAll();
  assert.equal(await rowOf(queueId), undefined);
  assert.equal((await room.sql('select from job where queue_id = $1', [queueId])).length, 0);
  assert.equal((await room.sql(`select from job_expiry where expires_at = '2091-01-01T00:00:00Z'`)).length, 0);
});

test('a queue that others send their dead jobs to is kept, unless forced: then they send them nowhere', async () => {
  await room.call(putQueue, { queue: 'c', deadLetterQueue: 'c-dead' });
  const queueId = await room.queueId('c-dead');
  await assert.rejects(room.call(deleteQueue, { queue: 'c-dead' }), { code: 'CONFLICT' });
  await room.call(deleteQueue, { queue: 'c-dead', force: true });
  assert.equal((await room.call(getQueue, { queue: 'c' })).deadLetterQueue, undefined);
  await runAll();
  assert.equal(await rowOf(queueId), undefined);
});

/** A transaction that has begun, as an enqueue that saw the queue open. */
async function lateEnqueue(queueId: number) {
  const client = new pg.Client({ connectionString: room.url });
  await client.connect();
  await client.query('begin');
  await client.query('select closed_at from queue where id = $1', [queueId]);
  return {
    put: async () => {
      const onClient = { sql: async (text: string, values?: unknown[]) => (await client.query(text, values)).rows };
      return place(onClient as Room, 'ready', { queueId });
    },
    end: async (how: 'commit' | 'rollback') => {
      await client.query(how);
      await client.end();
    },
  };
}

test('a delete that meets a concurrent enqueue waits for it, and the queue stays when a job came in', async () => {
  const queueId = await queueWith('d');
  const enqueue = await lateEnqueue(queueId);
  const refused = assert.rejects(room.call(deleteQueue, { queue: 'd' }), { code: 'CONFLICT' });
  await until(async () => (await rowOf(queueId))!.closing);
  await assert.rejects(room.call(getQueue, { queue: 'd' }), { code: 'NOT_FOUND' });
  await assert.rejects(room.call(putQueue, { queue: 'd' }), { code: 'UNAVAILABLE' });
  await assert.rejects(room.call(putQueue, { queue: 'd-source', deadLetterQueue: 'd' }), { code: 'UNAVAILABLE' });
  await enqueue.put();
  await enqueue.end('commit');
  await refused;
  assert.deepEqual((await room.call(getQueue, { queue: 'd' })).counts, { scheduled: 0, ready: 1, leased: 0, dead: 0 });
});

test('a delete that meets a concurrent enqueue that fails goes through', async () => {
  const queueId = await queueWith('e');
  const enqueue = await lateEnqueue(queueId);
  const deleting = room.call(deleteQueue, { queue: 'e' });
  await until(async () => (await rowOf(queueId))!.closing);
  await enqueue.put();
  await enqueue.end('rollback');
  await deleting;
  assert.notEqual(await queueWith('e'), queueId);
});

test('a forced deletion keeps the row until no late job can come, and deletes the late job', async () => {
  const queueId = await queueWith('f');
  const enqueue = await lateEnqueue(queueId);
  await room.call(deleteQueue, { queue: 'f', force: true });
  const task = createDeleteQueues();
  while ((await task.run(room.engine)).again);
  assert.notEqual(await rowOf(queueId), undefined);
  const [id] = await enqueue.put();
  await enqueue.end('commit');
  while ((await task.run(room.engine)).again);
  assert.equal(await rowOf(queueId), undefined);
  assert.equal((await room.sql('select from job where id = $1', [id])).length, 0);
});

test('a deletion whose instance died is finished, or taken back when a job came in', async () => {
  const [empty, full] = [await queueWith('g'), await queueWith('h')];
  await place(room, 'ready', { queueId: full });
  await room.sql(`update queue set closed_at = now() - interval '2 minutes', closing = true where id = any($1)`, [
    [empty, full],
  ]);
  await runAll();
  assert.equal(await rowOf(empty), undefined);
  assert.equal((await rowOf(full))!.closed_at, null);
});
