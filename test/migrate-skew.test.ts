import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { pino } from 'pino';
import { loadConfig } from '../src/config.js';
import { migrate, pendingMigrations, requireSchema } from '../src/db/migrate.js';
import { createLog } from '../src/observability/log.js';
import { startService } from '../src/service.js';
import { directoryWith, emptyDatabase } from './helpers/migrations.js';
import { createDatabase, query } from './helpers/postgres.js';
import { startTestService, until } from './helpers/service.js';

const log = pino({ level: 'silent' });

const FIRST = { '0001-first.sql': 'create table one (id int, old int);' };
/** Versions that know only the first go on. */
const EXPANDED = { ...FIRST, '0002-expand.sql': '-- compatible-from: 1\nalter table one add column new int;' };
/** Versions that know only the first do not. */
const CONTRACTED = { ...EXPANDED, '0003-contract.sql': '-- compatible-from: 2\nalter table one drop column old;' };
const TOO_NEW = /too new for this version of Stint: .* up to 0002 or further, and this one knows them up to 0001/;

async function databaseWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const url = await emptyDatabase(t);
  await migrate(url, { log, directory: await directoryWith(t, files) });
  return url;
}

test('C62: a version works with a database that a newer one has expanded, and leaves it as it is', async (t) => {
  const url = await databaseWith(t, EXPANDED);
  const directory = await directoryWith(t, FIRST);
  assert.deepEqual(await migrate(url, { log, directory }), { known: 1, applied: [] });
  assert.deepEqual(await requireSchema(url, { directory }), { known: 1 });
  assert.deepEqual(await pendingMigrations(url, { directory }), []);
  assert.deepEqual(await query(url, 'select number, compatible_from from stint.migration order by number'), [
    { number: 1, compatible_from: 1 },
    { number: 2, compatible_from: 1 },
  ]);
});

test('C62: a version refuses a database that has been contracted since, and says what it is too old for', async (t) => {
  const url = await databaseWith(t, CONTRACTED);
  const directory = await directoryWith(t, FIRST);
  for (const use of [() => migrate(url, { log, directory }), () => requireSchema(url, { directory })]) {
    await assert.rejects(use, TOO_NEW);
  }
  await assert.rejects(pendingMigrations(url, { directory }), TOO_NEW);
  const between = await directoryWith(t, EXPANDED);
  assert.deepEqual(await migrate(url, { log, directory: between }), { known: 2, applied: [] });
});

test('what a migration says nothing of it shuts out: older versions refuse the database', async (t) => {
  const url = await databaseWith(t, { ...FIRST, '0002-silent.sql': 'create table two (id int);' });
  await assert.rejects(migrate(url, { log, directory: await directoryWith(t, FIRST) }), TOO_NEW);
});

test('a version that is not to migrate refuses an older database, and an empty one, with what to run', async (t) => {
  const url = await databaseWith(t, FIRST);
  const directory = await directoryWith(t, EXPANDED);
  const wanted = /too old for this version of Stint: it lacks the migration 0002-expand\. Run `stint migrate`/;
  await assert.rejects(requireSchema(url, { directory }), wanted);
  await assert.rejects(requireSchema(await emptyDatabase(t), { directory }), /it lacks the migration 0001-first/);
  assert.deepEqual(await query(url, 'select number from stint.migration'), [{ number: 1 }]);
});

test('a migration edited after its release is refused, also where the database holds newer ones', async (t) => {
  const url = await databaseWith(t, EXPANDED);
  const directory = await directoryWith(t, { '0001-first.sql': 'create table one (id bigint);' });
  await assert.rejects(migrate(url, { log, directory }), /0001-first differs from the one applied/);
});

test('who has nothing to migrate does not wait for another instance that does', async (t) => {
  const url = await databaseWith(t, EXPANDED);
  const directory = await directoryWith(t, {
    ...EXPANDED,
    '0003-long.sql': '-- compatible-from: 1\nselect pg_sleep(3);',
  });
  const newer = migrate(url, { log, directory });
  await until('it migrates', async () => {
    const rows = await query(
      url,
      `select from pg_stat_activity where query like '%pg_sleep(3)%' and pid <> pg_backend_pid()`,
    );
    return rows.length > 0;
  });
  const began = performance.now();
  await migrate(url, { log, directory: await directoryWith(t, EXPANDED) });
  assert.ok(performance.now() - began < 1_500, `waited for ${performance.now() - began} ms`);
  assert.deepEqual((await newer).applied, ['0003-long']);
});

test('nonsense about compatibility is refused by the number of its migration', async (t) => {
  const url = await emptyDatabase(t);
  for (const nonsense of ['0', '3', 'none', '1.5', '']) {
    const directory = await directoryWith(t, {
      ...FIRST,
      '0002-odd.sql': `-- compatible-from: ${nonsense}\nselect 1;`,
    });
    await assert.rejects(migrate(url, { log, directory }), /migration 2: compatible-from must be a number from 1 to 2/);
  }
});

test('a service that is not to migrate does not start on an empty database, and says what to run', async (t) => {
  const config = loadConfig({
    STINT_DATABASE_URL: await emptyDatabase(t),
    STINT_ADMIN_KEY: 'a-key-that-is-long-enough-for-the-test',
    STINT_MIGRATE: 'off',
    STINT_HTTP_PORT: '0',
    STINT_GRPC_PORT: '0',
  });
  await assert.rejects(
    startService(config, createLog('silent')),
    /too old .* lacks the migration 0001-.*Run `stint migrate`/,
  );
});

const CONTRACTION = `
insert into stint.migration (number, name, checksum, compatible_from)
select max(number) + 1, '0099-contract', 'x', max(number) + 1 from stint.migration`;

test('a running instance is not ready any more when the database has been contracted beyond it', async (t) => {
  const service = await startTestService({ STINT_MIGRATE: 'off' });
  t.after(() => service.stop());
  await service.sql(`
    insert into stint.migration (number, name, checksum, compatible_from)
    select max(number) + 1, '0098-expand', 'x', max(number) from stint.migration`);
  assert.equal((await service.admin.get('/readyz')).status, 200);
  await service.sql(CONTRACTION);
  const { status, body } = await service.admin.get('/readyz');
  assert.equal(status, 503);
  assert.match(body.detail, /too new for this version of Stint/);
});

test('a running instance that nobody asks whether it is ready notices, too, within seconds', async (t) => {
  const database = await createDatabase();
  const config = loadConfig({
    STINT_DATABASE_URL: database.url,
    STINT_ADMIN_KEY: 'a-key-that-is-long-enough-for-the-test',
    STINT_HOST: '127.0.0.1',
    STINT_HTTP_PORT: '0',
    STINT_GRPC_PORT: '0',
  });
  const service = await startService(config, createLog('silent'));
  t.after(() => service.stop().then(() => database.drop()));
  let reason: Error | undefined;
  void service.outgrown.then((given) => (reason = given));
  await query(database.url, CONTRACTION);
  await until('it asks to be stopped', () => reason !== undefined);
  assert.match(reason!.message, /too new for this version of Stint/);
});
