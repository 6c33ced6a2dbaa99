import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, it } from 'node:test';
import { check } from '../../src/check.js';
import { loadConfig } from '../../src/config.js';
import { migrate } from '../../src/db/migrate.js';
import { createLog } from '../../src/observability/log.js';
import { query } from '../helpers/postgres.js';
import { runScript } from '../helpers/service-process.js';
import { startTestService } from '../helpers/service.js';
import { startTlsPostgres, type TlsPostgres } from './tls-postgres.js';

const HAS_OPENSSL = spawnSync('openssl', ['version']).status === 0;

describe('TLS to Postgres', { skip: HAS_OPENSSL ? false : 'openssl is not on this machine' }, () => {
  let postgres: TlsPostgres;
  const log = createLog('silent');

  before(async () => (postgres = await startTlsPostgres()));

  after(() => postgres.stop());

  function verified(host: string, authority: string, mode = 'verify-full'): string {
    return `${postgres.urlOf(host)}?sslmode=${mode}&sslrootcert=${encodeURIComponent(authority)}`;
  }

  /** What `stint serve` says on standard error when it cannot start. */
  async function refusal(url: string): Promise<string> {
    const running = runScript('src/main.js', ['serve'], {
      STINT_DATABASE_URL: url,
      STINT_ADMIN_KEY: 'k'.repeat(32),
      STINT_HTTP_PORT: '0',
      STINT_GRPC_PORT: '0',
      STINT_LOG_LEVEL: 'trace',
    });
    assert.equal((await running.exit).code, 1, running.output());
    const lines = running.output().trim().split('\n');
    assert.ok(!running.output().includes(new URL(url).password), 'the password is not told');
    return lines.at(-1)!;
  }

  it('encrypts every connection: migrations, all pools, wake-ups, checks', async () => {
    const url = verified('localhost', postgres.authority);
    const lines: string[] = [];
    const told = createLog('info', { write: (line) => void lines.push(line) });
    const service = await startTestService({ STINT_DATABASE_URL: url }, told);
    try {
      const client = await service.tenant();
      await client.post('/v1/queues/mail/jobs', { payload: 1 });
      const { body } = await client.post('/v1/queues/mail/lease', {});
      await client.post('/v1/leases/heartbeat', { items: [{ leaseToken: body.jobs[0].leaseToken }] });
      await client.post('/v1/leases/ack', { items: [{ leaseToken: body.jobs[0].leaseToken }] });
      const sessions = await query(
        url,
        `select distinct application_name as name, ssl from pg_stat_ssl join pg_stat_activity using (pid)
         where application_name like 'stint %' order by name`,
      );
      const names = sessions.map(({ name }) => name);
      for (const name of ['ordinary', 'enqueue', 'claim', 'settle', 'heartbeat', 'wakeups']) {
        assert.ok(names.includes(`stint ${name}`), `${name} is among ${names.join(', ')}`);
      }
      assert.deepEqual(
        sessions.filter(({ ssl }) => ssl !== true),
        [],
      );
      const config = loadConfig({ STINT_DATABASE_URL: url }, { needsAdminKey: false });
      assert.equal(await check(config, { json: true, write: () => undefined }), 0);
      assert.deepEqual((await migrate(url, { log })).applied, []);
      assert.deepEqual(
        lines.filter((line) => !line.includes('"level":"info"')),
        [],
      );
    } finally {
      await service.stop();
    }
  });

  it('refuses a server whose certificate another authority has signed', async () => {
    const said = await refusal(verified('localhost', postgres.stranger));
    assert.match(
      said,
      /^stint: the database cannot be reached \(localhost:\d+, database stint\): .*(certificate|signature)/,
    );
  });

  it('refuses a server whose certificate is for another host', async () => {
    const said = await refusal(verified('127.0.0.1', postgres.authority));
    assert.match(
      said,
      /^stint: the database cannot be reached \(127\.0\.0\.1:\d+, database stint\): .*does not match certificate/,
    );
  });

  it('trusts no server of an authority that nobody has named', async () => {
    const said = await refusal(`${postgres.urlOf('localhost')}?sslmode=verify-full`);
    assert.match(said, /: the database cannot be reached .*: .*certificate/);
  });

  it('says that the server takes no plaintext', async () => {
    for (const url of [postgres.urlOf('localhost'), `${postgres.urlOf('localhost')}?sslmode=disable`]) {
      assert.match(await refusal(url), /: the database cannot be reached .*: .*no encryption/);
    }
  });

  it('says that there is no such file', async () => {
    const said = await refusal(verified('localhost', '/nowhere/authority.crt'));
    assert.match(said, /^stint: .*\/nowhere\/authority\.crt", which cannot be read \(ENOENT\)/);
  });

  for (const mode of ['prefer', 'require', 'verify-ca']) {
    it(`takes ${mode} for verify-full`, async () => {
      assert.deepEqual((await migrate(verified('localhost', postgres.authority, mode), { log })).applied, []);
      for (const url of [
        verified('127.0.0.1', postgres.authority, mode),
        verified('localhost', postgres.stranger, mode),
      ]) {
        await assert.rejects(migrate(url, { log }), /certificate|signature/);
      }
    });
  }

  it('encrypts and verifies nothing with no-verify', async () => {
    const url = `${postgres.urlOf('127.0.0.1')}?sslmode=no-verify`;
    const [own] = await query(url, 'select ssl from pg_stat_ssl where pid = pg_backend_pid()');
    assert.deepEqual(own, { ssl: true });
  });
});
