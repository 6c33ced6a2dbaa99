import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { v7 } from 'uuid';
import { deleteDead } from '../../src/queues/delete-dead.js';
import { deleteQueue } from '../../src/queues/delete.js';
import { getQueue } from '../../src/queues/get.js';
import { putQueue } from '../../src/queues/put.js';
import { redriveDead } from '../../src/queues/redrive.js';
import { openRoom, place, type Room } from './room.js';

let room: Room;
before(async () => (room = await openRoom()));
after(() => room.close());

const countsOf = async (queue: string) => (await room.call(getQueue, { queue })).counts;

async function queueWith(name: string): Promise<number> {
  await room.call(putQueue, { queue: name });
  return room.queueId(name);
}

test('a redriven job keeps id, history and epoch, starts again at attempt 1 and expires no more', async () => {
  const queueId = await queueWith('a');
  const [id] = await place(room, 'dead', { queueId, rank: -3, expiresAt: '2020-01-01T00:00:00Z' });
  assert.deepEqual(await room.call(redriveDead, { queue: 'a', ids: [id, v7()] }), { matched: 1, redriven: 1 });
  const [row] = await room.sql('select * from ready where job_id = $1', [id]);
  assert.deepEqual(
    [row.attempt, row.epoch, row.lease_id, row.ended, row.releases, row.rank, row.expires_at],
    [0, 1, '7', 'nacked', 2, -3, null],
  );
  assert.equal((await room.sql('select expires_at from job where id = $1', [id]))[0].expires_at, null);
  assert.equal((await room.sql('select from job_expiry where job_id = $1', [id])).length, 0);
  assert.equal((await room.sql('select from attempt where job_id = $1', [id])).length, 1);
  assert.deepEqual(await countsOf('a'), { scheduled: 0, ready: 1, leased: 0, dead: 0 });
  assert.ok(room.woken.ready.includes(queueId));
});

test('a dry run counts and moves nothing', async () => {
  const queueId = await queueWith('b');
  await place(room, 'dead', { queueId, count: 5 });
  assert.deepEqual(await room.call(redriveDead, { queue: 'b', dryRun: true }), { matched: 5, redriven: 0 });
  assert.equal((await countsOf('b')).dead, 5);
});

test('a filter takes the jobs that meet all it names', async () => {
  const queueId = await queueWith('c');
  await place(room, 'dead', { queueId, count: 2, kind: 'mail', minutesAgo: 60 });
  await place(room, 'dead', { queueId, count: 3, kind: 'mail' });
  await place(room, 'dead', { queueId, count: 4, kind: 'sms' });
  const halfAnHourAgo = (Date.now() - 1_800_000) * 1000;
  const matched = async (filter: object) =>
    (await room.call(redriveDead, { queue: 'c', filter, dryRun: true })).matched;
  assert.equal(await matched({}), 9);
  assert.equal(await matched({ kind: 'mail' }), 5);
  assert.equal(await matched({ kind: 'mail', olderThan: halfAnHourAgo }), 2);
  assert.equal(await matched({ newerThan: halfAnHourAgo }), 7);
  assert.equal(await matched({ reason: 'final' }), 0);
  assert.equal(await matched({ reason: 'attempts_spent', kind: 'sms' }), 4);
  assert.deepEqual(await room.call(redriveDead, { queue: 'c', filter: { kind: 'mail' } }), { matched: 5, redriven: 5 });
  assert.deepEqual(await countsOf('c'), { scheduled: 0, ready: 5, leased: 0, dead: 4 });
});

test('with toQueue the jobs go to the other queue, body and counts with them', async () => {
  const queueId = await queueWith('d');
  const target = await queueWith('d2');
  const ids = await place(room, 'dead', { queueId, count: 3 });
  await assert.rejects(room.call(redriveDead, { queue: 'd', toQueue: 'nowhere' }), (error: any) => {
    assert.equal(error.code, 'NOT_FOUND');
    assert.equal(error.fields[0].field, 'toQueue');
    return true;
  });
  assert.deepEqual(await room.call(redriveDead, { queue: 'd', toQueue: 'd2' }), { matched: 3, redriven: 3 });
  assert.equal((await countsOf('d')).dead, 0);
  assert.equal((await countsOf('d2')).ready, 3);
  const bodies = await room.sql('select distinct queue_id from job where id = any($1)', [ids]);
  assert.deepEqual(bodies, [{ queue_id: target }]);
});

test('with a rate the jobs are scheduled one interval apart, over all batches', async () => {
  const queueId = await queueWith('e');
  await place(room, 'dead', { queueId, count: 2500 });
  assert.deepEqual(await room.call(redriveDead, { queue: 'e', rate: 10 }), { matched: 2500, redriven: 2500 });
  assert.deepEqual(await countsOf('e'), { scheduled: 2500, ready: 0, leased: 0, dead: 0 });
  const [row] = await room.sql(
    `select extract(epoch from max(due_at) - min(due_at))::float8 as span, count(distinct due_at)::int as instants,
      min(due_at) <= clock_timestamp() as starts
    from scheduled where queue_id = $1`,
    [queueId],
  );
  assert.ok(Math.abs(row.span - 249.9) < 5, String(row.span));
  assert.equal(row.instants, 2500);
  assert.ok(row.starts);
  assert.ok(room.woken.scheduled.length >= 3);
  await place(room, 'dead', { queueId, count: 40_000 });
  await assert.rejects(room.call(redriveDead, { queue: 'e', rate: 0.001 }), { code: 'INVALID_ARGUMENT' });
});

test('a filter finds its jobs among many others, batch after batch', async () => {
  const queueId = await queueWith('k');
  for (let round = 0; round < 3; round++) {
    await place(room, 'dead', { queueId, count: 900, kind: 'a' });
    await place(room, 'dead', { queueId, count: 900, kind: 'b' });
  }
  const filter = { kind: 'b' };
  assert.deepEqual(await room.call(redriveDead, { queue: 'k', filter }), { matched: 2700, redriven: 2700 });
  assert.deepEqual(await room.call(deleteDead, { queue: 'k', filter: { kind: 'a' } }), { deleted: 2700 });
  assert.deepEqual(await countsOf('k'), { scheduled: 0, ready: 2700, leased: 0, dead: 0 });
});

test('two redrives at once move each job once', async () => {
  const queueId = await queueWith('f');
  await place(room, 'dead', { queueId, count: 3000 });
  const results = await Promise.all([1, 2, 3].map(() => room.call(redriveDead, { queue: 'f' })));
  assert.equal(
    results.reduce((sum: number, result) => sum + Number(result.redriven), 0),
    3000,
  );
  assert.deepEqual(await countsOf('f'), { scheduled: 0, ready: 3000, leased: 0, dead: 0 });
});

test('ids and filter exclude each other, and an id that is none is named', async () => {
  await queueWith('g');
  const refused =
    (...names: string[]) =>
    (error: any) => {
      assert.equal(error.code, 'INVALID_ARGUMENT');
      assert.deepEqual(error.fields.map(({ field }: any) => field).sort(), names);
      return true;
    };
  for (const operation of [redriveDead, deleteDead]) {
    await assert.rejects(room.call(operation, { queue: 'g', ids: [v7()], filter: {} }), refused('filter', 'ids'));
    await assert.rejects(room.call(operation, { queue: 'g', ids: [v7(), 'x'] }), refused('ids[1]'));
    await assert.rejects(room.call(operation, { queue: 'nowhere' }), { code: 'NOT_FOUND' });
  }
});

test('a job whose body is lost is not redriven, but can be deleted', async () => {
  const queueId = await queueWith('h');
  const [id] = await place(room, 'dead', { queueId });
  await room.sql('delete from job where id = $1', [id]);
  assert.deepEqual(await room.call(redriveDead, { queue: 'h' }), { matched: 0, redriven: 0 });
  assert.deepEqual(await room.call(deleteDead, { queue: 'h' }), { deleted: 1 });
});

test('deleting dead jobs takes bodies and attempts along, and other jobs not', async () => {
  const queueId = await queueWith('i');
  const ids = await place(room, 'dead', { queueId, count: 2300, kind: 'x', expiresAt: '2092-01-01T00:00:00Z' });
  const [kept] = await place(room, 'dead', { queueId, kind: 'y' });
  assert.deepEqual(await room.call(deleteDead, { queue: 'i', filter: { kind: 'x' } }), { deleted: 2300 });
  assert.equal((await countsOf('i')).dead, 1);
  for (const [table, column] of [
    ['job', 'id'],
    ['attempt', 'job_id'],
    ['job_expiry', 'job_id'],
    ['dead', 'job_id'],
  ]) {
    assert.equal((await room.sql(`select from ${table} where ${column} = any($1)`, [ids])).length, 0);
  }
  assert.equal((await room.sql('select from dead where job_id = $1', [kept])).length, 1);
});

test('another tenant redrives and deletes nothing, by whatever ids', async () => {
  const queueId = await queueWith('j');
  const ids = await place(room, 'dead', { queueId, count: 2 });
  const other = { id: '01890000-0000-7000-8000-000000000003', name: 'other', autoCreateQueues: true, limits: {} };
  await room.sql('insert into tenant (id, name) values ($1, $2)', [other.id, other.name]);
  await room.call(putQueue, { queue: 'j' }, other);
  assert.deepEqual(await room.call(redriveDead, { queue: 'j', ids }, other), { matched: 0, redriven: 0 });
  assert.deepEqual(await room.call(deleteDead, { queue: 'j', ids }, other), { deleted: 0 });
  await room.call(deleteQueue, { queue: 'j' }, other);
  assert.equal((await countsOf('j')).dead, 2);
});
