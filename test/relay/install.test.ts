import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { pino } from 'pino';
import { createRelayMetrics } from '../../src/relay/metrics.js';
import { installOutbox, outboxDdl } from '../../src/relay/install.js';
import { createEmptyDatabase, otherPostgres, query, type TestDatabase } from '../helpers/postgres.js';
import { endWith, runScript } from '../helpers/service-process.js';
import { until } from '../helpers/service.js';
import { createRelayRoom } from './room.js';

const log = pino({ level: 'silent' });
const page = readFileSync(new URL('../../../docs/relay.md', import.meta.url), 'utf8');
const oldest = await otherPostgres();

/** The SQL blocks under a heading of docs/relay.md. */
function documentedSql(heading: string): string[] {
  const section = page.slice(page.indexOf(`\n${heading}\n`) + heading.length + 2).split(/\n##/)[0]!;
  return [...section.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql!);
}

const objects = (url: string) =>
  query(
    url,
    `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'
     union all
     select n.nspname || '.' || p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'
     order by 1`,
  );

for (const { name, server, skip } of [
  { name: 'the current PostgreSQL', server: undefined, skip: false },
  { name: 'PostgreSQL 15', server: oldest, skip: oldest === undefined && 'PostgreSQL 15 is not installed' },
]) {
  describe(`the outbox in an application’s database, on ${name}`, { skip }, () => {
    let database: TestDatabase;

    before(async () => {
      database = await createEmptyDatabase(server);
      await query(
        database.url,
        'create table public.orders (id int primary key, total int); insert into orders values (1, 1)',
      );
    });

    after(() => database.drop());

    it('is made without a lock on what is there: a busy application neither holds it up nor is held up (C62)', async () => {
      const busy = new pg.Client({ connectionString: database.url });
      await busy.connect();
      await busy.query('begin; lock table public.orders in access exclusive mode; update orders set total = 2');
      const before = await objects(database.url);
      const began = performance.now();
      assert.equal(await installOutbox(database.url, 'stint_outbox', log), true);
      assert.ok(performance.now() - began < 2_000);
      await busy.query('commit');
      await busy.end();
      const made = (await objects(database.url)).map(({ name: made }) => made as string);
      const old = new Set(before.map(({ name: kept }) => kept as string));
      for (const { name: kept } of before) assert.ok(made.includes(kept as string));
      for (const each of made.filter((each) => !old.has(each))) assert.match(each, /^stint_outbox\./);
    });

    it('is made once: a second time changes nothing, and so does its text', async () => {
      const before = await objects(database.url);
      await query(database.url, `select stint_outbox.enqueue('kept', '1')`);
      assert.equal(await installOutbox(database.url, 'stint_outbox', log), false);
      await query(database.url, outboxDdl('stint_outbox'));
      assert.deepEqual(await objects(database.url), before);
      const rows = await query(database.url, 'select queue from stint_outbox.message');
      assert.deepEqual(rows, [{ queue: 'kept' }]);
    });

    it('is made once by several at the same time, in a schema of another name', async () => {
      const made = await Promise.all(Array.from({ length: 4 }, () => installOutbox(database.url, 'stint_other', log)));
      assert.ok(made.includes(true));
      await query(database.url, `select stint_other.enqueue('q', '{"a":1}', '{"kind":"k"}')`);
      assert.equal((await query(database.url, 'select from stint_other.message')).length, 1);
      assert.ok(!outboxDdl('stint_other').includes('stint_outbox'));
    });

    it('is refused where it is newer than this version', async () => {
      await query(
        database.url,
        `create schema stint_newer; create function stint_newer.outbox_version() returns int language sql as 'select 99'`,
      );
      await assert.rejects(installOutbox(database.url, 'stint_newer', log), /is of version 99: this Stint knows 1/);
    });

    it('takes every form of payload, and rolls back with its transaction', async () => {
      await query(
        database.url,
        `begin; select stint_outbox.enqueue('q', '1'); select stint_outbox.enqueue('q', '{"a":1}', '{"kind":"k"}'); rollback`,
      );
      const forms = [
        `'1'`,
        `null`,
        `'1'::text`,
        `json_build_object('a', 1)`,
        `jsonb_build_object('a', 1)`,
        `'\\x00ff'::bytea`,
      ];
      for (const form of forms) await query(database.url, `select stint_outbox.enqueue('forms', ${form}, null)`);
      const rows = await query(
        database.url,
        `select payload, payload_bytes, options from stint_outbox.message where queue = 'forms' order by id`,
      );
      assert.deepEqual(
        rows.map(({ payload, payload_bytes: bytes }) => payload ?? bytes),
        ['1', null, '1', '{"a" : 1}', '{"a": 1}', Buffer.from([0, 255])],
      );
      const inQ = await query(database.url, `select from stint_outbox.message where queue = 'q'`);
      assert.equal(inQ.length, 0);
    });

    it('notifies at the commit, once, unless that is turned off', async () => {
      const listener = new pg.Client({ connectionString: database.url });
      await listener.connect();
      let heard = 0;
      listener.on('notification', () => (heard += 1));
      await listener.query('listen stint_outbox');
      await query(database.url, `set stint_outbox.notify = off; select stint_outbox.enqueue('q', '1')`);
      await query(database.url, `select stint_outbox.enqueue('q', n::text) from generate_series(1, 100) n`);
      await until('it is heard', () => heard > 0);
      await listener.query('select 1');
      assert.equal(heard, 1);
      await listener.end();
    });
  });
}

describe('the roles that docs/relay.md gives', () => {
  let database: TestDatabase;
  const urlAs = (user: string): string => {
    const url = new URL(database.url);
    url.username = user;
    url.password = 'change-me';
    return url.href;
  };

  before(async () => {
    database = await createEmptyDatabase();
    await installOutbox(database.url, 'stint_outbox', log);
    await query(database.url, `create role shop login password 'change-me'; create table public.theirs (id int)`);
    for (const sql of documentedSql('### Roles')) await query(database.url, sql);
  });

  after(async () => {
    await query(database.url, 'drop owned by shop; drop owned by stint_relay; drop role shop; drop role stint_relay');
    await database.drop();
  });

  it('let the application enqueue', async () => {
    for (const payload of [`'1'`, `'{}'::json`, `'{}'::jsonb`, `'\\x00'::bytea`]) {
      const rows = await query(urlAs('shop'), `select stint_outbox.enqueue('q', ${payload}) as key`);
      assert.match(rows[0]!.key as string, /^[0-9a-f-]{36}$/);
    }
  });

  for (const [user, statement] of [
    ['shop', 'select from stint_outbox.message'],
    ['shop', `insert into stint_outbox.message (queue) values ('q')`],
    ['shop', 'delete from stint_outbox.message'],
    ['shop', 'truncate stint_outbox.message'],
    ['shop', 'create table stint_outbox.mine (id int)'],
    ['stint_relay', `insert into stint_outbox.message (queue) values ('q')`],
    ['stint_relay', `update stint_outbox.message set payload = '1'`],
    ['stint_relay', `update stint_outbox.message set key = gen_random_uuid()`],
    ['stint_relay', `select stint_outbox.enqueue('q', '1')`],
    ['stint_relay', 'create table stint_outbox.mine (id int)'],
    ['stint_relay', 'select from public.theirs'],
  ] as const) {
    it(`do not let ${user}: ${statement}`, () => assert.rejects(query(urlAs(user), statement), { code: '42501' }));
  }

  it('let the relay do all its work, and no temporary table of the application’s stands in its way', async () => {
    await query(
      urlAs('shop'),
      `create temp table message (id int); create function pg_temp.pg_notify(text, text) returns void language sql as 'select 1/0';
       select stint_outbox.enqueue('q', '{}')`,
    );
    const room = await createRelayRoom();
    try {
      await query(database.url, `select stint_outbox.enqueue('q', '{bad')`);
      const relay = await room.relay({ databaseUrl: urlAs('stint_relay') });
      const left = () => query(database.url, 'select parked_reason from stint_outbox.message');
      await until('all is shipped or parked', async () =>
        (await left()).every(({ parked_reason: why }) => why !== null),
      );
      assert.equal((await left()).length, 1);
      const metrics = async () => (await fetch(`http://127.0.0.1:${relay.port}/metrics`)).text();
      await until('it is measured', async () => /^stint_relay_parked_rows 1$/m.test(await metrics()));
      const env = { STINT_RELAY_DATABASE_URL: urlAs('stint_relay') };
      const retry = runScript('src/main.js', ['relay', 'retry', 'all'], env);
      assert.equal((await retry.exit).code, 0, retry.output());
      assert.equal(retry.output(), '1 row will be sent again.\n');
    } finally {
      await room.close();
    }
  });
});

describe('stint relay', () => {
  it('installs, prints the text that it installs, and waits for an outbox that is not there yet', async (t) => {
    const database = await createEmptyDatabase();
    const env = { STINT_RELAY_DATABASE_URL: database.url };
    const ddl = runScript('src/main.js', ['relay', 'ddl'], { STINT_RELAY_SCHEMA: 'stint_mine' });
    assert.equal((await ddl.exit).code, 0, ddl.output());
    assert.equal(ddl.output(), outboxDdl('stint_mine'));

    const early = runScript('src/main.js', ['relay'], {
      ...env,
      STINT_RELAY_URL: 'http://127.0.0.1:9',
      STINT_RELAY_KEY: 'k',
      STINT_RELAY_PORT: '0',
    });
    t.after(() => early.child.kill('SIGKILL'));
    await until('it says what to do', () => early.output().includes('stint relay install makes it'), 20_000);
    for (const said of ['Made the outbox stint_outbox.\n', 'The outbox stint_outbox is up to date.\n']) {
      const install = runScript('src/main.js', ['relay', 'install'], env);
      assert.equal((await install.exit).code, 0, install.output());
      assert.equal(install.output(), said);
    }
    await until('it has reached the outbox', () => /"side":"database","msg":"reached"/.test(early.output()), 20_000);
    assert.equal((await endWith(early, 'SIGTERM')).code, 0, early.output());
    await database.drop();
  });

  it('says what is missing, without a secret, and has no use for the service’s variables', async () => {
    const bare = runScript('src/main.js', ['relay'], {
      STINT_RELAY_KEY: 'a b',
      STINT_RELAY_URL: 'https://me:secret@host',
    });
    assert.equal((await bare.exit).code, 1);
    assert.match(bare.output(), /STINT_RELAY_KEY is not what it should be/);
    assert.match(bare.output(), /STINT_RELAY_DATABASE_URL is missing/);
    const wrong = runScript('src/main.js', ['relay', 'retry', '17'], {});
    assert.equal((await wrong.exit).code, 1);
    assert.match(wrong.output(), /17 is no key of a row/);
  });
});

it('docs/relay.md has every metric of the relay, and none that does not exist', async () => {
  const { body } = await createRelayMetrics().render();
  const names = [...body.matchAll(/^# TYPE (stint_relay_\S+) (\S+)$/gm)].map(([, name, type]) => `${name!} ${type!}`);
  const rows = [...page.matchAll(/^\| `(stint_[a-z_]+)` \| (\w+) \|/gm)].map(([, name, type]) => `${name!} ${type!}`);
  assert.deepEqual(rows.toSorted(), names.toSorted());
});
