import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { check } from '../../src/check.js';
import { loadConfig } from '../../src/config.js';
import { createLog } from '../../src/observability/log.js';
import { createEmptyDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { startTestService, type TestService, until } from '../helpers/service.js';
import { documentedSql } from './doc-sql.js';

const ROLE = 'stint_service';
const PASSWORD = 'change-me';
/** More dead rows than the service leaves lying. */
const JOBS = 1_200;
/** Those that come round within 10 s. */
const TASKS = [
  'poll',
  'raise-floors',
  'promote-due',
  'return-expired',
  'expire-jobs',
  'fold-counts',
  'forward-dead',
  'mark-rates',
  'purge',
  'delete-queues',
  'prune',
  'sample-depth',
  'watch-endings',
  'vacuum',
  'share-limits',
  'watch-callers',
  'delete-tenants',
];

describe('a database role that owns only its schema', () => {
  let database: TestDatabase;
  let url: string;
  let service: TestService;
  const lines: string[] = [];
  const [required = '', optional = ''] = documentedSql('### A role that owns only its schema');

  async function untilRun(task: string): Promise<void> {
    const success = `stint_task_runs_total{task="${task}",result="ok"}`;
    await until(`${task} has run`, async () => (await service.admin.get('/metrics')).text.includes(success), 30_000);
  }

  before(async () => {
    database = await createEmptyDatabase();
    await query(database.url, required);
    await query(database.url, 'create schema neighbour; create table neighbour.secrets (id int)');
    const own = new URL(database.url);
    own.username = ROLE;
    own.password = PASSWORD;
    url = own.href;
    const log = createLog('info', { write: (line) => void lines.push(line) });
    service = await startTestService({ STINT_DATABASE_URL: url }, log);
  });

  after(async () => {
    await service.stop();
    await database.drop();
    await query(service.database.url.replace(/[^/]*$/, 'postgres'), `drop role ${ROLE}`);
  });

  it('migrates, serves, does every background task and vacuums, without a complaint', async () => {
    const client = await service.tenant();
    const jobs = Array.from({ length: JOBS / 2 }, (_, number) => ({ queue: 'mail', payload: { number } }));
    for (let batch = 0; batch < 2; batch += 1) {
      assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
      const leased = await client.post('/v1/queues/mail/lease', { maxJobs: jobs.length });
      assert.equal(leased.body.jobs.length, jobs.length);
      const items = leased.body.jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken }));
      assert.equal((await client.post('/v1/leases/ack', { items })).status, 200);
    }
    await client.post('/v1/queues/old/jobs', {});
    assert.equal((await client.post('/v1/queues/old/purge')).status, 202);
    assert.equal((await client.delete('/v1/queues/old?force=true')).status, 200);
    assert.equal((await service.admin.post('/v1/admin/tenants', { name: 'gone' })).status, 201);
    assert.equal((await service.admin.delete('/v1/admin/tenants/gone')).status, 202);
    for (const task of TASKS) await untilRun(task);
    const vacuumed = /stint_task_rows_total\{task="vacuum",count="vacuumed"\} [1-9]/;
    await until('it has vacuumed', async () => vacuumed.test((await service.admin.get('/metrics')).text), 20_000);
    assert.deepEqual(
      lines.filter((line) => !line.includes('"level":"info"')),
      [],
    );
  });

  it('checks the database', async () => {
    const written: string[] = [];
    const config = loadConfig({ STINT_DATABASE_URL: url }, { needsAdminKey: false });
    assert.equal(await check(config, { json: false, write: (text) => written.push(text) }), 0, written.join(''));
  });

  it('owns its schema and nothing else, and is nobody otherwise', async () => {
    const owned = await query(
      database.url,
      `select distinct coalesce(n.nspname, c.relnamespace::regnamespace::text) as schema
       from pg_shdepend d
       left join pg_namespace n on d.classid = 'pg_namespace'::regclass and n.oid = d.objid
       left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
       where d.refobjid = $1::regrole and d.deptype = 'o' and d.classid in ('pg_namespace'::regclass, 'pg_class'::regclass)
         and d.dbid = (select oid from pg_database where datname = current_database())`,
      [ROLE],
    );
    assert.deepEqual(owned, [{ schema: 'stint' }]);
    const [role] = await query(
      database.url,
      `select rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls as powerful,
         (select count(*)::int from pg_auth_members where member = r.oid) as groups
       from pg_roles r where rolname = $1`,
      [ROLE],
    );
    assert.deepEqual(role, { powerful: false, groups: 0 });
  });

  for (const statement of [
    'create table public.mine (id int)',
    'create schema mine',
    'create database mine',
    'create role mine',
    'select from neighbour.secrets',
    'create table neighbour.mine (id int)',
    'select from pg_authid',
    `select pg_read_file('/etc/hostname')`,
    `copy stint.migration to program 'true'`,
  ]) {
    it(`may not: ${statement}`, () => assert.rejects(query(url, statement), { code: '42501' }));
  }

  it('sees since when others are in a transaction once it is granted to, and not before', async () => {
    const other = new pg.Client({ connectionString: database.url });
    await other.connect();
    try {
      await other.query('begin; select 1');
      const { rows } = await other.query<{ pid: number }>('select pg_backend_pid() as pid');
      const isSeen = async (): Promise<boolean> => {
        const [row] = await query(url, 'select xact_start from pg_stat_activity where pid = $1', [rows[0]!.pid]);
        return row!.xact_start !== null;
      };
      assert.equal(await isSeen(), false);
      await query(database.url, optional);
      assert.equal(await isSeen(), true);
    } finally {
      await other.end();
    }
  });
});
