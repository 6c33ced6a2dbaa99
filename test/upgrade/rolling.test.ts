import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { readMigrations } from '../../src/db/read-migrations.js';
import { checkInvariants } from '../helpers/invariants.js';
import { createDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { type Client, clientFor, until } from '../helpers/service.js';
import { logOf, runProgram } from '../helpers/service-process.js';
import { faultsOf, FIRST_RELEASE } from '../migration-rules.js';
import { Balancer } from './balancer.js';
import { Fleet, type Instance, THIS_VERSION } from './fleet.js';
import { makeNewerVersion, type NewerVersion } from './newer-version.js';
import { tenantOf } from './tenant.js';
import { startTraffic } from './traffic.js';

const NEWER = '99.0.0';
/** What a later release might do to the tables that every call uses. */
const EXPANSION = [
  'alter table ready add column ordering_key text;',
  'alter table lease add column fairness integer not null default 1;',
  'alter table job add column labels jsonb;\ncreate or replace view job_state as select seen.* from (\n@view\n) as seen;',
  'create index concurrently job_kind on job (kind) where kind is not null;',
  'create table label (job_id uuid primary key, text text not null);\ncreate index label_text on label (text);',
];

describe('a rolling upgrade under load (C25, C26, C62)', () => {
  let database: TestDatabase;
  let newer: NewerVersion;
  let fleet: Fleet;
  let client: Client;
  let balancer: Balancer;

  before(async () => {
    database = await createDatabase();
    newer = await makeNewerVersion(NEWER, await expansion());
    fleet = await Fleet.start(THIS_VERSION, {
      databaseUrl: database.url,
      size: 3,
      env: { STINT_DRAIN_DELAY_SECONDS: '1' },
    });
    client = await tenantOf(fleet);
    balancer = new Balancer(fleet, client.key);
  });

  after(async () => {
    balancer.close();
    await fleet.stop();
    await newer.remove();
    await database.drop();
  });

  /** The migrations, as files; the view is the one that stands, with a column more. */
  async function expansion(): Promise<Record<string, string>> {
    const [{ view }] = await query(database.url, `select pg_get_viewdef('stint.job_state'::regclass) as view`);
    const widened = EXPANSION.map((sql) => sql.replace('select seen.*', 'select seen.*, null::jsonb as labels'));
    return Object.fromEntries(
      widened.map((sql, index) => {
        const number = String(FIRST_RELEASE + 1 + index).padStart(4, '0');
        const text = sql.replace('@view', String(view).replace(';', ''));
        return [`${number}-expand.sql`, `-- compatible-from: ${FIRST_RELEASE}\n-- Why: for a test.\n${text}\n`];
      }),
    );
  }

  async function versionOf({ base }: Instance): Promise<string> {
    return (await clientFor(base, '').get('/openapi.json')).body.info.version as string;
  }

  async function restart(instance: Instance, main: string): Promise<void> {
    const { code, took } = await fleet.end(instance);
    assert.equal(code, 0, fleet.process(instance).output());
    assert.ok(took < 10_000, `the stop took ${took} ms`);
    await fleet.launch(instance, main);
  }

  it('the migrations in the middle are such as may be released', async () => {
    const migrations = await readMigrations(newer.migrations);
    assert.equal(migrations.length, FIRST_RELEASE + EXPANSION.length);
    for (const migration of migrations.slice(FIRST_RELEASE)) {
      assert.deepEqual(faultsOf(migration, migrations.slice(0, migration.number - 1)), []);
    }
  });

  it(
    'each instance in turn stops and starts, a migration in the middle, and no call fails; nothing is lost or done twice',
    { timeout: 120_000 },
    async () => {
      const traffic = startTraffic(balancer);
      const { book } = traffic;
      await until('the traffic flows', () => book.acked.size > 200);
      const [first, second, third] = fleet.instances as [Instance, Instance, Instance];

      const migrated = runProgram(process.execPath, [newer.main, 'migrate'], { STINT_DATABASE_URL: database.url });
      assert.equal((await migrated.exit).code, 0, migrated.output());
      assert.match(migrated.output(), /Applied 0005-expand, 0006-expand, 0007-expand, 0008-expand, 0009-expand\./);

      // An old one that comes back after the migration, and then a new one beside two old ones, and so on.
      await restart(second, THIS_VERSION);
      for (const instance of [first, second, third]) {
        await restart(instance, newer.main);
        assert.equal(await versionOf(instance), NEWER);
        const before = book.acked.size;
        await until('the traffic goes on', () => book.acked.size > before + 100);
      }
      await traffic.finish();

      assert.deepEqual(balancer.failures, []);
      assert.deepEqual(book.unexpected, []);
      assert.ok(book.drained > 0, 'streams were asked to go');
      assert.ok(book.accepted.size > 1_000, `${book.accepted.size} jobs`);
      assert.deepEqual(
        [...book.accepted].filter((id) => book.acked.get(id) !== 1),
        [],
        'acked once',
      );
      assert.deepEqual(
        [...book.leased].filter(([, times]) => times !== 1),
        [],
        'handed out once',
      );
      await assertDone(book.accepted);
      const loud = logOf(fleet.output()).filter(({ level }) => level === 'error' || level === 'fatal');
      assert.deepEqual(loud, []);
    },
  );

  async function assertDone(accepted: ReadonlySet<string>): Promise<void> {
    const [counted] = await query(
      database.url,
      `select (select count(*) from stint.ready)::int as ready, (select count(*) from stint.lease)::int as leased,
        (select count(*) from stint.dead)::int as dead, count(*)::int as finished,
        count(*) filter (where attempt = 1 and ended = 'acked' and job_id = any($1::uuid[]))::int as ours
      from stint.finished`,
      [[...accepted]],
    );
    const { size } = accepted;
    assert.deepEqual(counted, { ready: 0, leased: 0, dead: 0, finished: size, ours: size });
    await checkInvariants({ sql: (text, params) => query(database.url, text, params) });
  }

  it('an old version is refused by a database that has been contracted since, in plain words', async () => {
    await query(
      database.url,
      `insert into stint.migration (number, name, checksum, compatible_from) values (10, '0010-contract', 'x', 9)`,
    );
    const running = runProgram(process.execPath, [THIS_VERSION, 'serve'], {
      STINT_DATABASE_URL: database.url,
      STINT_ADMIN_KEY: fleet.adminKey,
      STINT_HTTP_PORT: '0',
      STINT_GRPC_PORT: '0',
    });
    assert.equal((await running.exit).code, 1);
    assert.match(
      running.output(),
      /^stint: the database is too new for this version of Stint: .* up to 0009 or further/m,
    );
    assert.equal(
      fleet.instances.every(({ ready }) => ready),
      true,
    );
  });

  it('an instance that runs when the database is contracted beyond it stops by itself, with the reason and exit code 1', async () => {
    await query(
      database.url,
      `insert into stint.migration (number, name, checksum, compatible_from) values (11, '0011-contract', 'x', 11)`,
    );
    const running = fleet.process(fleet.instances[0]!);
    await until('it has ended', () => running.child.exitCode !== null, 15_000);
    assert.equal((await running.exit).code, 1);
    assert.match(
      running.output(),
      /^stint: the database is too new for this version of Stint: .* up to 0011 or further/m,
    );
  });
});
