import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { Connections } from '../../src/db/pool.js';
import type { StorageSample } from '../../src/observability/storage-metrics.js';
import { readStorage } from '../../src/tasks/sample-storage.js';
import { openRoom, type Room } from '../queues/room.js';

const ROLE = `seer_${randomBytes(6).toString('hex')}`;
let room: Room;
let holder: pg.Client;

before(async () => {
  room = await openRoom();
  holder = new pg.Client({ connectionString: room.url });
  await holder.connect();
  await room.sql(`create role ${ROLE} login password 'seer'`);
  await room.sql(`grant usage on schema stint to ${ROLE}`);
});

after(async () => {
  await holder.end();
  await room.sql(`drop owned by ${ROLE}`);
  await room.sql(`drop role ${ROLE}`);
  await room.close();
});

function sessionOf({ holders }: StorageSample) {
  return holders.find((each) => each.holder === 'session')!;
}

async function asSeer(): Promise<StorageSample> {
  const url = new URL(room.url);
  [url.username, url.password] = [ROLE, 'seer'];
  const connections = new Connections({
    url: url.href,
    name: 'seer',
    size: 1,
    settings: {},
    statementTimeout: 10_000,
    onCall: () => undefined,
    onLost: () => undefined,
  });
  try {
    return await readStorage(connections);
  } finally {
    await connections.close();
  }
}

test('C56: a transaction that keeps dead rows is seen by its age in seconds and in transactions, and no longer once it has ended', async () => {
  const { tasks } = room.engine.database;
  await holder.query('begin isolation level repeatable read');
  await holder.query('select 1');
  for (let n = 0; n < 5; n += 1) await room.sql(`update tenant set name = name`);
  const held = sessionOf(await readStorage(tasks));
  assert.ok(held.transactions >= 5, `${held.transactions} transactions`);
  assert.ok(held.seconds !== null && held.seconds > 0, `${held.seconds} s`);
  await holder.query('commit');
  assert.deepEqual(sessionOf(await readStorage(tasks)), { holder: 'session', transactions: 0, seconds: 0 });
});

test('the other holders are told apart, and say 0 while there is none', async () => {
  const { holders } = await readStorage(room.engine.database.tasks);
  const byHolder = Object.fromEntries(holders.map(({ holder: name, ...ages }) => [name, ages]));
  assert.deepEqual(Object.keys(byHolder).sort(), ['prepared_transaction', 'replication_slot', 'session', 'standby']);
  assert.deepEqual(byHolder['prepared_transaction'], { transactions: 0, seconds: 0 });
  assert.deepEqual(byHolder['replication_slot'], { transactions: 0, seconds: null });
});

test('a role that may not see the sessions of others knows their age in transactions, and in seconds once it is granted', async () => {
  await holder.query('begin isolation level repeatable read');
  await holder.query('select 1');
  await room.sql(`update tenant set name = name`);
  const blind = sessionOf(await asSeer());
  assert.ok(blind.transactions >= 1);
  assert.equal(blind.seconds, null);
  await room.sql(`grant pg_read_all_stats to ${ROLE}`);
  assert.ok(sessionOf(await asSeer()).seconds! > 0);
  await holder.query('commit');
});

test('sizes and rows are those of the tables that the service works with', async () => {
  await room.sql('insert into queue_count (queue_id) select generate_series(1, 1000)');
  await room.sql('delete from queue_count where queue_id between 1 and 1000');
  await room.sql('vacuum queue_count');
  const { tables } = await readStorage(room.engine.database.tasks);
  assert.equal(tables.length, 11);
  const count = tables.find(({ table }) => table === 'queue_count')!;
  assert.ok(count.heap >= 8_192 && count.indexes >= 8_192);
  assert.ok(Math.abs(count.vacuumedAt! - Date.now() / 1_000) < 60);
  const [{ names }] = await room.sql(
    `select array_agg(relname::text) as names from pg_class where relnamespace = 'stint'::regnamespace`,
  );
  for (const { table } of tables) assert.ok(names.includes(table), table);
});
