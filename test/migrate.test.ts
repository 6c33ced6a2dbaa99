import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { migrate, pendingMigrations } from '../src/db/migrate.js';
import { directoryWith, emptyDatabase } from './helpers/migrations.js';
import { createDatabase, query } from './helpers/postgres.js';

const log = pino({ level: 'silent' });

const FIRST = { '0001-first.sql': 'create table one (id int);' };
const SECOND = { '0002-second.sql': 'create table two (id int); insert into one values (1);' };

test('the migrations of this version bring an empty database up to date, and a second time changes nothing', async (t) => {
  const url = await emptyDatabase(t);
  const pending = await pendingMigrations(url);
  assert.deepEqual((await migrate(url, { log })).applied, pending);
  assert.ok(pending.length > 0);
  assert.deepEqual((await migrate(url, { log })).applied, []);
  assert.deepEqual(await pendingMigrations(url), []);
});

test('a database made for a test has the schema already', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  assert.deepEqual(await pendingMigrations(database.url), []);
});

test('migrations are applied in order, in the schema stint, and recorded with their checksums', async (t) => {
  const url = await emptyDatabase(t);
  const directory = await directoryWith(t, { ...SECOND, ...FIRST });
  assert.deepEqual(await pendingMigrations(url, { directory }), ['0001-first', '0002-second']);
  assert.deepEqual((await migrate(url, { log, directory })).applied, ['0001-first', '0002-second']);
  assert.deepEqual(await query(url, 'select id from stint.one'), [{ id: 1 }]);
  const rows = await query(url, 'select number, name, length(checksum) as length from stint.migration order by number');
  assert.deepEqual(rows, [
    { number: 1, name: '0001-first', length: 64 },
    { number: 2, name: '0002-second', length: 64 },
  ]);
});

test('asking what is pending writes nothing', async (t) => {
  const url = await emptyDatabase(t);
  await pendingMigrations(url);
  assert.deepEqual(await query(url, `select to_regnamespace('stint') as found`), [{ found: null }]);
});

test('a migration that fails leaves nothing of itself, and those before it stand', async (t) => {
  const url = await emptyDatabase(t);
  const files = { ...FIRST, '0002-second.sql': 'create table two (id int); select 1/0;' };
  await assert.rejects(
    migrate(url, { log, directory: await directoryWith(t, files) }),
    /the migration 0002-second failed: division by zero/,
  );
  const [tables] = await query(
    url,
    `select to_regclass('stint.one') is not null as one, to_regclass('stint.two') is not null as two`,
  );
  assert.deepEqual(tables, { one: true, two: false });
  const mended = await directoryWith(t, { ...FIRST, ...SECOND });
  assert.deepEqual((await migrate(url, { log, directory: mended })).applied, ['0002-second']);
});

test('instances that migrate at once apply each migration once', async (t) => {
  const url = await emptyDatabase(t);
  const directory = await directoryWith(t, { ...FIRST, ...SECOND });
  const results = await Promise.all([1, 2, 3, 4].map(() => migrate(url, { log, directory })));
  assert.deepEqual(results.flatMap((result) => result.applied).sort(), ['0001-first', '0002-second']);
  assert.deepEqual(await query(url, 'select count(*)::int as rows from stint.one'), [{ rows: 1 }]);
});

test('a migration edited after its release is refused, other line ends are no edit', async (t) => {
  const url = await emptyDatabase(t);
  await migrate(url, {
    log,
    directory: await directoryWith(t, { '0001-first.sql': 'create table one (\nid int);\n' }),
  });
  const sameText = await directoryWith(t, { '0001-first.sql': 'create table one (\r\nid int);\r\n' });
  assert.deepEqual((await migrate(url, { log, directory: sameText })).applied, []);
  const edited = await directoryWith(t, { '0001-first.sql': 'create table one (\nid bigint);\n' });
  await assert.rejects(migrate(url, { log, directory: edited }), /0001-first differs from the one applied/);
});

test('numbers of migration files run from 1 without gap or repetition', async (t) => {
  const url = await emptyDatabase(t);
  for (const files of [SECOND, { ...FIRST, '0001-again.sql': '' }, { ...FIRST, '0002-Second Name.sql': '' }]) {
    const directory = await directoryWith(t, files);
    await assert.rejects(migrate(url, { log, directory }), /numbers run without gap or repetition/);
  }
});

test('other files beside the migrations are none', async (t) => {
  const url = await emptyDatabase(t);
  const directory = await directoryWith(t, { ...FIRST, 'schema.sql': 'select 1/0', 'README.md': '' });
  assert.deepEqual((await migrate(url, { log, directory })).applied, ['0001-first']);
});

test('a database that cannot be reached is named without its password', async () => {
  await assert.rejects(migrate('postgres://me:hidden@127.0.0.1:1/jobs', { log }), (error: Error) => {
    assert.match(error.message, /cannot be reached \(127\.0\.0\.1:1, database jobs\): .*ECONNREFUSED/);
    assert.doesNotMatch(error.message, /hidden/);
    return true;
  });
});

test('a role that may not create a schema is told what to grant', async (t) => {
  const url = await emptyDatabase(t);
  const role = `limited_${process.pid}`;
  await query(url, `create role ${role} login password 'secret'`);
  const limited = new URL(url);
  limited.username = role;
  limited.password = 'secret';
  await assert.rejects(migrate(limited.href, { log }), new RegExp(`the role ${role} may not make the schema stint`));
  await query(url, `drop role ${role}`);
});
