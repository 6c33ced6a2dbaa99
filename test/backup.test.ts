import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { loadConfig } from '../src/config.js';
import { pendingMigrations } from '../src/db/migrate.js';
import { createLog } from '../src/observability/log.js';
import { type Service, startService } from '../src/service.js';
import { checkInvariants } from './helpers/invariants.js';
import { findPostgres15 } from './helpers/postgres-server.js';
import { createDatabase, createEmptyDatabase, otherPostgres, query, type TestDatabase } from './helpers/postgres.js';
import { type Client, clientFor, until } from './helpers/service.js';

/* docs/backup.md, tried: what an older copy of the database means for jobs, leases and keys. */

const execute = promisify(execFile);
const ADMIN_KEY = 'only-for-this-test-only-for-this-test';
const home = await findPostgres15();
const programs = home === undefined ? undefined : path.join(home, 'bin');
const HAS_DUMP = programs !== undefined && existsSync(path.join(programs, 'pg_dump'));

interface Served {
  readonly service: Service;
  readonly admin: Client;
  with(key: string): Client;
}

const services: Service[] = [];

async function serve(url: string): Promise<Served> {
  const config = loadConfig({
    STINT_DATABASE_URL: url,
    STINT_ADMIN_KEY: ADMIN_KEY,
    STINT_HOST: '127.0.0.1',
    STINT_HTTP_PORT: '0',
    STINT_GRPC_PORT: '0',
  });
  const service = await startService(config, createLog('error'));
  services.push(service);
  const base = `http://127.0.0.1:${service.port}`;
  return { service, admin: clientFor(base, ADMIN_KEY), with: (key) => clientFor(base, key) };
}

async function enqueue(
  client: Client,
  queue: string,
  job: object = {},
): Promise<{ id: string; deduplicated?: boolean }> {
  const { status, body, text } = await client.post(`/v1/queues/${queue}/jobs`, job);
  assert.ok(status === 201 || status === 200, text);
  return body;
}

async function lease(client: Client, queue: string, visibilityTimeout = '5m'): Promise<any> {
  const { body, text } = await client.post(`/v1/queues/${queue}/lease`, { visibilityTimeout, wait: '5s' });
  assert.equal(body.jobs.length, 1, text);
  return body.jobs[0];
}

async function ack(client: Client, { leaseToken }: { leaseToken: string }): Promise<string> {
  const { body } = await client.post('/v1/leases/ack', { items: [{ leaseToken }] });
  return body.results[0].outcome;
}

async function stateOf(client: Client, { id }: { id: string }): Promise<string | undefined> {
  const { status, body } = await client.get(`/v1/jobs/${id}`);
  return status === 404 ? undefined : body.state;
}

describe('a dump that is restored', { skip: !HAS_DUMP && 'pg_dump of PostgreSQL 15 is not installed' }, () => {
  let folder: string;
  const databases: TestDatabase[] = [];
  let restored: TestDatabase;
  let served: Served;
  let client: Client;
  let revoked: string;
  let jobs: Record<'first' | 'second' | 'later' | 'working' | 'acked' | 'dead' | 'done' | 'keyed' | 'lost', any>;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'stint-backup-'));
    const server = (await otherPostgres())!;
    const original = await createDatabase(server);
    restored = await createEmptyDatabase(server);
    databases.push(original, restored);
    const before = await serve(original.url);
    const keys = await makeKeys(before);
    revoked = keys[1]!.secret;
    const held = before.with(keys[0]!.secret);
    const kept = await fill(held);
    const file = path.join(folder, 'stint.dump');
    await execute(path.join(programs!, 'pg_dump'), [
      '--format=custom',
      '--schema=stint',
      `--file=${file}`,
      original.url,
    ]);
    // What the dump knows nothing of.
    assert.equal(await ack(held, kept.acked), 'OK');
    const lost = await enqueue(held, 'mail', { idempotencyKey: 'order-18' });
    assert.equal((await before.admin.delete(`/v1/admin/tenants/acme/keys/${keys[1]!.id}`)).status, 200);
    await until('the key is refused', async () => (await before.with(revoked).get('/v1/queues')).status === 401);
    await before.service.stop();
    const into = ['--exit-on-error', '--no-owner', `--dbname=${restored.url}`, file];
    await execute(path.join(programs!, 'pg_restore'), into);
    jobs = { ...kept, lost };
    served = await serve(restored.url);
    client = served.with(keys[0]!.secret);
  });

  after(async () => {
    for (const service of services) await service.stop();
    for (const database of databases) await database.drop();
    await rm(folder, { recursive: true });
  });

  async function makeKeys({ admin }: Served): Promise<{ id: string; secret: string }[]> {
    await admin.post('/v1/admin/tenants', { name: 'acme' });
    const scopes = ['enqueue', 'work', 'read', 'manage'];
    const made = ['kept', 'revoked'].map((name) => admin.post('/v1/admin/tenants/acme/keys', { name, scopes }));
    return (await Promise.all(made)).map(({ body }) => body);
  }

  async function fill(held: Client): Promise<Omit<typeof jobs, 'lost'>> {
    for (const queue of ['working', 'acked', 'done']) await enqueue(held, queue);
    await enqueue(held, 'dead', { maxAttempts: 1 });
    const done = await lease(held, 'done');
    await ack(held, done);
    const dead = await lease(held, 'dead');
    await held.post('/v1/leases/nack', { items: [{ leaseToken: dead.leaseToken, error: { message: 'no' } }] });
    return {
      first: await enqueue(held, 'ready'),
      second: await enqueue(held, 'ready'),
      later: await enqueue(held, 'ready', { delay: '1h' }),
      keyed: await enqueue(held, 'mail', { idempotencyKey: 'order-17' }),
      working: await lease(held, 'working'),
      acked: await lease(held, 'acked', '3s'),
      dead,
      done,
    };
  }

  test('is whole, and of this version', async () => {
    await checkInvariants({ sql: (text, params) => query(restored.url, text, params) });
    assert.deepEqual(await pendingMigrations(restored.url), []);
  });

  test('has every job where it stood', async () => {
    assert.equal(await stateOf(client, jobs.later), 'scheduled');
    assert.equal(await stateOf(client, jobs.dead), 'dead');
    assert.equal(await stateOf(client, jobs.done), 'completed');
    assert.equal((await lease(client, 'ready')).id, jobs.first.id);
    assert.equal((await lease(client, 'ready')).id, jobs.second.id);
  });

  test('takes the ack of a worker that has gone on with its lease', async () => {
    assert.equal(await ack(client, jobs.working), 'OK');
  });

  test('hands a job out again that was acked after it was made, and no longer takes the old token', async () => {
    const again = await lease(client, 'acked');
    assert.equal(again.id, jobs.acked.id);
    assert.ok(again.leaseEpoch > jobs.acked.leaseEpoch);
    assert.equal(await ack(client, jobs.acked), 'LEASE_LOST');
    assert.equal(await ack(client, again), 'OK');
  });

  test('does not have what was enqueued after it was made, and takes it when it is sent again', async () => {
    assert.equal(await stateOf(client, jobs.lost), undefined);
    const again = await enqueue(client, 'mail', { idempotencyKey: 'order-18' });
    assert.notEqual(again.deduplicated, true);
  });

  test('knows the idempotency keys that it had', async () => {
    const again = await enqueue(client, 'mail', { idempotencyKey: 'order-17' });
    assert.deepEqual([again.id, again.deduplicated], [jobs.keyed.id, true]);
  });

  test('takes a key that was revoked after it was made', async () => {
    assert.equal((await served.with(revoked).get('/v1/queues')).status, 200);
  });
});
