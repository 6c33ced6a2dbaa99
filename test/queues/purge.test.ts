import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import type { Statement } from '../../src/db/pool.js';
import { getQueue } from '../../src/queues/get.js';
import { purgeQueue } from '../../src/queues/purge.js';
import { putQueue } from '../../src/queues/put.js';
import { createPurge } from '../../src/tasks/purge.js';
import { openRoom, place, type Room } from './room.js';

let room: Room;
before(async () => (room = await openRoom()));
after(() => room.close());

const countsOf = async (queue: string) => (await room.call(getQueue, { queue })).counts;
const cutOf = async (queueId: number) =>
  Number((await room.sql('select cut from queue where id = $1', [queueId]))[0].cut);

async function queueWith(name: string): Promise<number> {
  await room.call(putQueue, { queue: name });
  return room.queueId(name);
}

test('purge counts what waits, at once, and leaves leased, dead and finished jobs', async () => {
  const queueId = await queueWith('a');
  const gone = await place(room, 'ready', { queueId, count: 3, rank: -1, key: undefined });
  gone.push(...(await place(room, 'ready', { queueId, rank: 2, key: 'k', expiresAt: '2090-01-01T00:00:00Z' })));
  gone.push(...(await place(room, 'scheduled', { queueId, count: 2 })));
  const stays = await place(room, 'lease', { queueId });
  stays.push(...(await place(room, 'dead', { queueId })), ...(await place(room, 'finished', { queueId, key: 'kept' })));

  assert.deepEqual(await room.call(purgeQueue, { queue: 'a' }), { purged: 6 });
  assert.deepEqual(await countsOf('a'), { scheduled: 0, ready: 0, leased: 1, dead: 1 });
  assert.deepEqual(await room.call(purgeQueue, { queue: 'a' }), { purged: 0 });

  await place(room, 'ready', { queueId, count: 2, rank: -1 });
  await place(room, 'scheduled', { queueId });
  assert.deepEqual(await countsOf('a'), { scheduled: 1, ready: 2, leased: 1, dead: 1 });
  assert.deepEqual(await room.call(purgeQueue, { queue: 'a' }), { purged: 3 });
  await place(room, 'ready', { queueId, rank: -1 });

  const purge = createPurge();
  while ((await purge.run(room.engine)).again) assert.deepEqual((await countsOf('a')).ready, 1);
  assert.equal(await cutOf(queueId), 0);
  assert.deepEqual(await countsOf('a'), { scheduled: 0, ready: 1, leased: 1, dead: 1 });
  const bodies = await room.sql('select id from job where id = any($1)', [gone]);
  const attempts = await room.sql('select from attempt where job_id = any($1)', [gone]);
  assert.deepEqual([bodies.length, attempts.length], [0, 0]);
  assert.equal((await room.sql('select from job where id = any($1)', [stays])).length, 3);
  assert.equal((await room.sql('select from job_expiry')).length, 0);
  assert.deepEqual(await room.sql('select key from idempotency'), [{ key: 'kept' }]);
});

test('a purge of more than a chunk goes through in chunks, with exact counts between them', async () => {
  const queueId = await queueWith('b');
  await place(room, 'ready', { queueId, count: 7000 });
  await place(room, 'ready', { queueId, count: 4000, rank: 1 });
  assert.deepEqual(await room.call(purgeQueue, { queue: 'b' }), { purged: 11_000 });
  await place(room, 'ready', { queueId, count: 10 });
  const purge = createPurge();
  const chunks: number[] = [];
  for (let again = true; again;) {
    const result = await purge.run(room.engine);
    chunks.push(result.counts['purged']!);
    assert.equal((await countsOf('b')).ready, 10);
    again = result.again ?? false;
  }
  assert.deepEqual(chunks, [5000, 5000, 1000, 0]);
  assert.equal(await cutOf(queueId), 0);
});

test('a job that drew its position before a purge and commits after it is purged, however late it commits', async () => {
  const queueId = await queueWith('c');
  const late = new pg.Client({ connectionString: room.url });
  await late.connect();
  await late.query('begin');
  const onLate = { sql: async (text: string, values?: unknown[]) => (await late.query(text, values)).rows };
  const [id] = await place(onLate as Room, 'ready', { queueId });

  assert.deepEqual(await room.call(purgeQueue, { queue: 'c' }), { purged: 0 });
  const purge = createPurge();
  for (let run = 0; run < 3; run++) await purge.run(room.engine);
  assert.ok((await cutOf(queueId)) > 0, 'the cut stands while the transaction may still commit');

  await late.query('commit');
  await late.end();
  assert.equal((await countsOf('c')).ready, 0);
  while ((await purge.run(room.engine)).again);
  assert.equal((await room.sql('select from ready where job_id = $1', [id])).length, 0);
  assert.equal(await cutOf(queueId), 0);
  assert.equal((await countsOf('c')).ready, 0);
});

test('a purge that comes while the one before is being finished keeps its cut', async () => {
  const queueId = await queueWith('d');
  await room.call(purgeQueue, { queue: 'd' });
  let late: string[] = [];
  const { tasks } = room.engine.database;
  const interrupted = {
    query: async (statement: Statement, values: unknown[]) => {
      if (statement.name === 'purge-take-cut-back' && late.length === 0) {
        late = await place(room, 'ready', { queueId });
        assert.deepEqual(await room.call(purgeQueue, { queue: 'd' }), { purged: 1 });
      }
      return tasks.query(statement, values);
    },
  };
  await createPurge().run({ ...room.engine, database: { ...room.engine.database, tasks: interrupted as never } });
  assert.equal(late.length, 1);
  assert.ok((await cutOf(queueId)) > 0);
  assert.equal((await countsOf('d')).ready, 0);
});

test('a purge waits for whoever moves jobs under a share lock of the queue, and covers what was moved', async () => {
  const queueId = await queueWith('e');
  const [id] = await place(room, 'scheduled', { queueId });
  const mover = new pg.Client({ connectionString: room.url });
  await mover.connect();
  await mover.query('begin');
  await mover.query('select from queue where id = $1 for share', [queueId]);
  await mover.query(
    `with moved as (delete from scheduled where job_id = $1 returning *),
    made as (insert into ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
      select queue_id, rank, job_id, now(), epoch, attempt, releases, size, ended from moved)
    insert into queue_count (queue_id, scheduled, ready) select queue_id, -1, 1 from moved`,
    [id],
  );
  const purging = room.call(purgeQueue, { queue: 'e' });
  await mover.query('commit');
  await mover.end();
  assert.deepEqual(await purging, { purged: 1 });
  assert.deepEqual(await countsOf('e'), { scheduled: 0, ready: 0, leased: 0, dead: 0 });
});

test('another tenant cannot purge, and an unknown queue is not found', async () => {
  const other = { id: '01890000-0000-7000-8000-000000000002', name: 'other', autoCreateQueues: true, limits: {} };
  await assert.rejects(room.call(purgeQueue, { queue: 'a' }, other), { code: 'NOT_FOUND' });
  await assert.rejects(room.call(purgeQueue, { queue: 'nowhere' }), { code: 'NOT_FOUND' });
});
