import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { migrate } from '../src/db/migrate.js';
import { directoryWith, emptyDatabase } from './helpers/migrations.js';
import { query } from './helpers/postgres.js';
import { until } from './helpers/service.js';

const FIRST = { '0001-first.sql': 'create table one (id int); insert into one select generate_series(1, 1000);' };
const ALTER = { ...FIRST, '0002-alter.sql': '-- compatible-from: 1\nalter table one add column more int;' };
const INDEX = {
  ...FIRST,
  '0002-index.sql': '-- compatible-from: 1\n-- Why: found by id.\ncreate unique index concurrently one_id on one (id);',
};
const silent = pino({ level: 'silent' });
/** The longest that a migration waits for a lock at a time, and room for a busy machine. */
const LONGEST_HELD_UP_MS = 1_600 + 900;

async function withClient(url: string, use: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    await use(client);
  } finally {
    await client.end();
  }
}

/** A log that counts its warnings and calls `then` at each. */
function warnings(then: (count: number) => void) {
  const lines: string[] = [];
  return { lines, log: pino({ level: 'warn' }, { write: (line) => then(lines.push(line)) }) };
}

test('C62: a migration that waits for a lock holds up nobody behind it for long, and goes on when the lock is free', async (t) => {
  const url = await emptyDatabase(t);
  await migrate(url, { log: silent, directory: await directoryWith(t, FIRST) });
  const { lines, log } = warnings(() => undefined);
  const took: number[] = [];
  await withClient(url, async (reader) => {
    await withClient(url, async (caller) => {
      // A transaction somewhere that has read the table and has not ended.
      await reader.query('begin; select count(*) from stint.one');
      const progress = { applied: false };
      const directory = await directoryWith(t, ALTER);
      const migrated = migrate(url, { log, directory }).finally(() => (progress.applied = true));
      const began = performance.now();
      while (!progress.applied) {
        const asked = performance.now();
        await caller.query('update stint.one set id = id where id = 1');
        took.push(performance.now() - asked);
        if (lines.length >= 4 || performance.now() - began > 30_000) await reader.query('rollback');
        await pause(5);
      }
      assert.deepEqual((await migrated).applied, ['0002-alter']);
    });
  });
  assert.ok(lines.length >= 4, `${lines.length} tries`);
  assert.match(lines[0]!, /0002-alter.*tried again/);
  const total = took.reduce((sum, each) => sum + each, 0);
  assert.ok(Math.max(...took) < LONGEST_HELD_UP_MS, `held up for ${Math.max(...took)} ms`);
  assert.ok(total > 0 && took.length > 300, `${took.length} calls went through meanwhile`);
});

test('a lock that stays is given up with the name of the migration, and nothing of it is left', async (t) => {
  const url = await emptyDatabase(t);
  await migrate(url, { log: silent, directory: await directoryWith(t, FIRST) });
  const directory = await directoryWith(t, ALTER);
  await withClient(url, async (holder) => {
    await holder.query('begin; lock table stint.one in share mode');
    await assert.rejects(
      migrate(url, { log: silent, directory, retryFor: 500 }),
      /the migration 0002-alter failed: no lock within 0\.5 s: canceling statement due to lock timeout/,
    );
  });
  assert.deepEqual(await query(url, 'select number from stint.migration'), [{ number: 1 }]);
  assert.deepEqual((await migrate(url, { log: silent, directory })).applied, ['0002-alter']);
});

test('C62: an index is built concurrently: writers go on while it waits for somebody’s transaction', async (t) => {
  const url = await emptyDatabase(t);
  await migrate(url, { log: silent, directory: await directoryWith(t, FIRST) });
  const directory = await directoryWith(t, INDEX);
  await withClient(url, async (writer) => {
    await writer.query('begin; update stint.one set id = id where id = 1');
    const migrated = migrate(url, { log: silent, directory });
    const waits = `select from pg_stat_activity where query like '%index concurrently one_id%' and wait_event_type = 'Lock'`;
    await until('it waits', async () => (await query(url, waits)).length > 0);
    const began = performance.now();
    await query(url, 'update stint.one set id = id where id = 2');
    assert.ok(performance.now() - began < 1_000);
    await writer.query('commit');
    assert.deepEqual((await migrated).applied, ['0002-index']);
  });
  assert.deepEqual(await validity(url), [{ valid: true }]);
});

test('C62: an index that an unfinished try has left invalid is built anew', async (t) => {
  const url = await emptyDatabase(t);
  await migrate(url, { log: silent, directory: await directoryWith(t, FIRST) });
  await query(url, 'insert into stint.one values (7)');
  const directory = await directoryWith(t, INDEX);
  await assert.rejects(migrate(url, { log: silent, directory }), /0002-index failed: could not create unique index/);
  assert.deepEqual(await validity(url), [{ valid: false }]);
  await query(url, 'delete from stint.one where id = 7');
  assert.deepEqual((await migrate(url, { log: silent, directory })).applied, ['0002-index']);
  assert.deepEqual(await validity(url), [{ valid: true }]);
});

test('a migration that builds an index concurrently holds nothing else', async (t) => {
  const url = await emptyDatabase(t);
  for (const sql of [
    'create index concurrently a on one (id); create index concurrently b on one (id);',
    'create table two (id int); create index concurrently a on two (id);',
    'create index concurrently if not exists a on one (id);',
    'create index concurrently on one (id);',
  ]) {
    const directory = await directoryWith(t, { ...FIRST, '0002-index.sql': sql });
    await assert.rejects(migrate(url, { log: silent, directory }), /must be this one statement/, sql);
  }
});

async function validity(url: string): Promise<{ valid: boolean }[]> {
  return query(url, `select indisvalid as valid from pg_index where indexrelid = 'stint.one_id'::regclass`);
}
