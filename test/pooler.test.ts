import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Connections, HOT_SETTINGS } from '../src/db/pool.js';
import { createDatabase, type TestDatabase } from './helpers/postgres.js';
import { freePort } from './helpers/service-process.js';
import { type Client, startTestService, type TestService, until } from './helpers/service.js';

const skip = spawnSync('pgbouncer', ['--version']).error !== undefined && 'PgBouncer is not installed';

describe('behind PgBouncer in session mode, as it comes', { skip }, () => {
  let database: TestDatabase;
  let bouncer: { readonly url: string; stop(): Promise<void> };
  let service: TestService;
  let client: Client;

  before(async () => {
    database = await createDatabase();
    bouncer = await startBouncer(database.url);
    service = await startTestService({ STINT_DATABASE_URL: bouncer.url });
    client = await service.tenant();
  });

  after(async () => {
    await service.stop();
    await bouncer.stop();
    await database.drop();
  });

  it('connections have their settings, and know their own backend', async () => {
    const connections = new Connections({
      url: bouncer.url,
      name: 'probe',
      size: 1,
      settings: HOT_SETTINGS,
      statementTimeout: 7_000,
      onCall: () => undefined,
      onLost: () => undefined,
    });
    const settings = { search_path: 'stint', statement_timeout: '7s', ...HOT_SETTINGS };
    const { found, pids } = await connections.withConnection(async (connection) => {
      const rows = await connection.query<{ name: string; value: string; pid: number }>(
        {
          name: 'probe',
          text: 'select name, current_setting(name) as value, pg_backend_pid() as pid from unnest($1::text[]) as n(name)',
        },
        [Object.keys(settings)],
      );
      return {
        found: Object.fromEntries(rows.map(({ name, value }) => [name, value])),
        pids: [connection.processId, rows[0]!.pid],
      };
    });
    await connections.close();
    assert.deepEqual(found, settings);
    assert.equal(pids[0], pids[1]);
  });

  it('a job is enqueued, wakes a worker who waits, and is acked', async () => {
    await client.put('/v1/queues/pooled', {});
    const waiting = client.post('/v1/queues/pooled/lease', { wait: '20s' });
    await until('the worker waits', async () => /^stint_parked_leases 1$/m.test((await client.get('/metrics')).text));
    const began = performance.now();
    assert.equal((await client.post('/v1/queues/pooled/jobs', { payload: 1 })).status, 201);
    const [job] = (await waiting).body.jobs;
    assert.ok(performance.now() - began < 5_000);
    assert.equal((await client.post(`/v1/jobs/${job.id}/ack`, { leaseToken: job.leaseToken })).body.outcome, 'OK');
    assert.equal((await client.get(`/v1/jobs/${job.id}`)).body.state, 'completed');
  });
});

/** A PgBouncer with nothing set that it need not have, before the server of that URL. */
async function startBouncer(target: string): Promise<{ url: string; stop(): Promise<void> }> {
  const { hostname, port, username, password } = new URL(target);
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-bouncer-'));
  const listenPort = await freePort();
  const users = path.join(directory, 'users.txt');
  const settings = path.join(directory, 'pgbouncer.ini');
  await writeFile(users, `"${username}" "${decodeURIComponent(password)}"\n`);
  await writeFile(
    settings,
    [
      '[databases]',
      `* = host=${hostname} port=${port}`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${listenPort}`,
      'unix_socket_dir =',
      'auth_type = scram-sha-256',
      `auth_file = ${users}`,
      'pool_mode = session',
      'default_pool_size = 60',
    ].join('\n'),
  );
  await chmod(directory, 0o755);
  // It does not run as root.
  const asNobody = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', [...asNobody, settings], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  await until('PgBouncer listens', () => {
    assert.equal(child.exitCode, null, log);
    return log.includes('process up');
  });
  const url = new URL(target);
  url.port = String(listenPort);
  url.hostname = '127.0.0.1';
  return {
    url: url.href,
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await rm(directory, { recursive: true });
    },
  };
}
