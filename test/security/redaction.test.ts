import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type Collector, startCollector } from '../helpers/collector.js';
import { grpcClient } from '../helpers/grpc.js';
import { overGrpc } from '../helpers/grpc-client.js';
import { type Client, clientFor, until } from '../helpers/service.js';
import {
  createInstallation,
  endWith,
  type Installation,
  runScript,
  startService,
  type ServiceProcess,
} from '../helpers/service-process.js';

const ADMIN_KEY = `admin-${randomBytes(24).toString('hex')}`;

/** What must never be written, by what it is. */
class Secrets {
  readonly #all = new Map<string, string>();

  /** Something that occurs nowhere else, to be used as what it is called. */
  make(what: string): string {
    return this.keep(what, `${what.replaceAll(' ', '_')}_${randomBytes(9).toString('hex')}`);
  }

  keep(what: string, secret: string): string {
    assert.ok(secret.length >= 16, what);
    this.#all.set(secret, what);
    return secret;
  }

  /** What of it occurs in a text, as it is or as Postgres writes bytes. */
  leakedIn(text: string): string[] {
    return [...this.#all].flatMap(([secret, what]) => {
      const found = [secret, Buffer.from(secret).toString('hex')].find((form) => text.includes(form));
      return found === undefined
        ? []
        : [`${what}: ${text.slice(Math.max(0, text.indexOf(found) - 200)).slice(0, 400)}`];
    });
  }
}

describe('what the service writes at the level trace', () => {
  const secrets = new Secrets();
  let installation: Installation;
  let collector: Collector;
  let service: ServiceProcess;
  let admin: Client;
  let tenant: Client;

  before(async () => {
    secrets.keep('admin key', ADMIN_KEY);
    installation = await createInstallation();
    collector = await startCollector();
    service = await startService(installation, {
      STINT_LOG_LEVEL: 'trace',
      STINT_ADMIN_KEY: ADMIN_KEY,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=${secrets.make('key of the collector')}`,
    });
    const password = path.join(installation.dataDirectory, 'postgres-password');
    secrets.keep('password of the database', (await readFile(password, 'utf8')).trim());
    secrets.keep('default key', service.client.key);
    admin = clientFor(service.base, ADMIN_KEY);
  });

  after(async () => {
    if (service.child.exitCode === null) await endWith(service, 'SIGTERM');
    await collector.close();
    await installation.remove();
  });

  const secretJob = (kind: string): object => ({
    kind,
    payload: { [secrets.make('payload name')]: secrets.make('payload') },
    headers: { 'x-header': secrets.make('header') },
    idempotencyKey: secrets.make('idempotency key'),
  });

  async function lease(client: Client, queue: string): Promise<string> {
    const { status, body, text } = await client.post(`/v1/queues/${queue}/lease`, { wait: '5s' });
    assert.equal(status, 200, text);
    return secrets.keep('lease token', body.jobs[0].leaseToken as string);
  }

  const error = (): object => ({
    message: secrets.make('error message'),
    type: secrets.make('error type'),
    detail: { [secrets.make('error detail name')]: secrets.make('error detail') },
  });

  /** Every verb with something secret in each field that can hold it. */
  async function work(client: Client, queue: string): Promise<void> {
    for (const verb of ['ack', 'nack', 'release']) {
      assert.equal((await client.post(`/v1/queues/${queue}/jobs`, secretJob('sound'))).status, 201);
      const leaseToken = await lease(client, queue);
      const progress = { step: secrets.make('progress') };
      assert.equal((await client.post('/v1/leases/heartbeat', { items: [{ leaseToken, progress }] })).status, 200);
      const more = { ack: { result: { done: secrets.make('result') } }, nack: { error: error(), final: true } }[verb];
      const { body, text } = await client.post(`/v1/leases/${verb}`, { items: [{ leaseToken, ...more }] });
      assert.equal(body.results[0].outcome, 'OK', text);
    }
    const key = secrets.make('idempotency key');
    await client.post(`/v1/queues/${queue}/jobs`, { idempotencyKey: key, payload: secrets.make('payload') });
    const reused = { idempotencyKey: key, payload: secrets.make('payload') };
    assert.equal((await client.post(`/v1/queues/${queue}/jobs`, reused)).status, 409);
    const found = await client.get(`/v1/queues/${queue}/jobs?include=payload&idempotencyKey=${key}`);
    assert.equal(found.status, 200);
    assert.equal((await client.get(`/v1/queues/${queue}/dead`)).body.jobs.length, 1);
    assert.equal((await client.post(`/v1/queues/${queue}/dead/redrive`, {})).status, 200);
  }

  /** Makes a key, gives it a new secret and revokes it, over both transports. */
  async function makeKeys(rest: Client, collection: string, scopes: readonly string[]): Promise<void> {
    for (const client of [rest, overGrpc(rest, service.grpc)]) {
      const name = `k-${randomBytes(6).toString('hex')}`;
      const made = await client.post(collection, collection === '/v1/admin/keys' ? { name } : { name, scopes });
      assert.equal(made.status, 201, made.text);
      secrets.keep('key', made.body.secret as string);
      const rotated = await client.post(`${collection}/${made.body.id}/rotate`, { overlap: '1h' });
      assert.equal(rotated.status, 200, rotated.text);
      secrets.keep('rotated key', rotated.body.secret as string);
      assert.equal((await client.delete(`${collection}/${made.body.id}`)).status, 200);
    }
  }

  it('makes tenants and keys, and works with them over both transports', async () => {
    assert.equal((await admin.post('/v1/admin/tenants', { name: 'acme' })).status, 201);
    const made = await admin.post('/v1/admin/tenants/acme/keys', {
      name: 'all',
      scopes: ['enqueue', 'work', 'read', 'manage'],
    });
    assert.equal(made.status, 201, made.text);
    tenant = clientFor(service.base, secrets.keep('key', made.body.secret as string));
    await makeKeys(clientFor(service.base, tenant.key), '/v1/keys', ['read']);
    await makeKeys(admin, '/v1/admin/tenants/acme/keys', ['work']);
    await makeKeys(admin, '/v1/admin/keys', ['admin']);
    assert.ok((await admin.get('/v1/admin/audit')).body.events.length > 0);
    const spare = await admin.post('/v1/admin/tenants/acme/keys', { name: 'spare', scopes: ['read'] });
    secrets.keep('revoked key', spare.body.secret as string);
    assert.ok((await admin.delete(`/v1/admin/tenants/acme/keys/${spare.body.id}`)).status < 300);
    assert.equal((await admin.get('/v1/admin/tenants/acme/keys')).status, 200);
    await work(tenant, 'rest');
    await work(overGrpc(tenant, service.grpc), 'grpc');
  });

  it('makes webhooks whose URLs hold secrets, over both transports', async () => {
    for (const [index, client] of [tenant, overGrpc(tenant, service.grpc)].entries()) {
      const url = `https://hooks.invalid/${secrets.make('path of a webhook')}?key=${secrets.make('query of a webhook')}`;
      const path = `/v1/webhooks/w${index}`;
      const made = await client.put(path, { url, events: ['job.dead'] });
      assert.equal(made.status, 201, made.text);
      secrets.keep('secret of a webhook', made.body.secret as string);
      const rotated = await client.post(`${path}/rotate`, { overlap: '1h' });
      secrets.keep('rotated secret of a webhook', rotated.body.secret as string);
      assert.equal((await client.post(`${path}/test`)).body.delivered, false);
      assert.equal((await client.put(path, { url: `${url} `, events: ['job.dead', 'nothing'] })).status, 400);
    }
  });

  it('serves a worker stream', async () => {
    await tenant.post('/v1/queues/stream/jobs', secretJob('sound'));
    const grpc = grpcClient(service.grpc, tenant.key);
    const worker = grpc.work();
    worker.send({ hello: { queues: [{ name: 'stream' }], credits: 1, worker: 'w' } });
    const jobs = (): { leaseToken: string }[] => worker.received.flatMap((message) => message.jobs?.jobs ?? []);
    await until('the job', () => jobs().length === 1);
    const leaseToken = secrets.keep('lease token', jobs()[0]!.leaseToken);
    const nack = { leaseToken, error: { message: secrets.make('error message') } };
    worker.send({ settle: { id: 1, items: { nacks: [nack] } } });
    await until('it is settled', () => worker.received.some(({ settled }) => settled != null));
    worker.stream.end();
    await worker.ended;
    grpc.close();
  });

  it('refuses what is wrong', async () => {
    const over = overGrpc(tenant, service.grpc);
    for (const wrong of [
      secrets.make('wrong key'),
      `stint_${secrets.make('wrong key')}`,
      `eyJ.${secrets.make('token')}.x`,
    ]) {
      for (const client of [clientFor(service.base, wrong), overGrpc(clientFor(service.base, wrong), service.grpc)]) {
        assert.equal((await client.post('/v1/queues/rest/jobs', secretJob('sound'))).status, 401);
      }
    }
    const basic = { headers: { authorization: `Basic ${secrets.make('basic password')}` } };
    assert.equal((await tenant.post('/v1/queues/rest/jobs', {}, basic)).status, 401);
    assert.equal((await tenant.post('/v1/queues/rest/jobs', `{"payload": "${secrets.make('payload')}`)).status, 400);
    assert.equal((await tenant.post('/v1/queues/rest/jobs', { [secrets.make('field')]: 1 })).status, 400);
    for (const client of [tenant, over]) {
      const long = { idempotencyKey: secrets.make('idempotency key').repeat(20) };
      assert.equal((await client.post('/v1/queues/rest/jobs', long)).status, 400);
      const items = [{ leaseToken: secrets.make('lease token'), result: secrets.make('result') }];
      assert.equal((await client.post('/v1/leases/ack', { items })).body.results[0].outcome, 'INVALID');
    }
    await new Promise<void>((resolve) => {
      const socket = connect(installation.port, '127.0.0.1', () => {
        socket.end(`POST /v1/x HTTP/1.1\r\nauthorization: Bearer ${secrets.make('key')}\r\nbroken\r\n\r\n`);
      });
      socket
        .on('error', () => resolve())
        .on('close', () => resolve())
        .resume();
    });
  });

  it('answers 500 where the database refuses a row or a statement, and repeats neither', async () => {
    for (const [table, constraint] of [
      ['job', `check (kind is distinct from 'poison')`],
      ['finished', `check (result is null or position('poison'::bytea in result) = 0)`],
      ['attempt', `check (error is null or error not like '%poison%')`],
      ['lease', `check (progress is null or progress not like '%poison%')`],
    ]) {
      await installation.sql(`alter table stint.${table} add constraint poison ${constraint}`);
    }
    for (const client of [tenant, overGrpc(tenant, service.grpc)]) {
      assert.equal((await client.post('/v1/queues/bad/jobs', secretJob('poison'))).status, 500);
      const jobs = [
        { queue: 'bad', ...secretJob('sound') },
        { queue: 'bad', ...secretJob('poison') },
      ];
      assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 500);
      await client.post('/v1/queues/bad/jobs', secretJob('sound'));
      const leaseToken = await lease(client, 'bad');
      const poisoned = { poison: secrets.make('poisoned value') };
      const failing: [string, object][] = [
        ['heartbeat', { progress: poisoned }],
        ['nack', { error: { message: `poison ${secrets.make('error message')}` } }],
        ['ack', { result: poisoned }],
      ];
      for (const [verb, more] of failing) {
        const { status, text } = await client.post(`/v1/leases/${verb}`, { items: [{ leaseToken, ...more }] });
        assert.equal(status, 500, `${verb}: ${text}`);
      }
    }
    await installation.sql('alter table stint.job rename column headers to broken');
    assert.equal((await tenant.post('/v1/queues/bad/jobs', secretJob('sound'))).status, 500);
    await installation.sql('alter table stint.job rename column broken to headers');
  });

  it('is told by nobody who cannot reach or open the database', async () => {
    const password = secrets.make('password of the database');
    const [{ port }] = await installation.sql('select inet_server_port() as port');
    for (const [url, args] of [
      [`postgres://stint:${password}@127.0.0.1:1/stint`, ['serve']],
      [`postgres://stint:${password}@127.0.0.1:${port}/stint`, ['serve']],
      [`postgres://stint:${password}@127.0.0.1:${port}/stint`, ['migrate']],
      [`postgres://stint:${password}@127.0.0.1:${port}/stint`, ['check']],
      [`postgres://stint:${password}@/x y`, ['serve']],
    ] as const) {
      const env = { STINT_DATABASE_URL: url, STINT_ADMIN_KEY: ADMIN_KEY, STINT_LOG_LEVEL: 'trace' };
      const running = runScript('src/main.js', args, env);
      assert.notEqual((await running.exit).code, 0);
      assert.match(running.output(), /stint: (the database cannot be reached|STINT_DATABASE_URL)/);
      assert.deepEqual(secrets.leakedIn(running.output()), []);
    }
    const tooShort = secrets.make('short key').slice(0, 20);
    const refused = runScript('src/main.js', ['serve'], { STINT_ADMIN_KEY: tooShort });
    assert.equal((await refused.exit).code, 1);
    assert.ok(!refused.output().includes(tooShort), refused.output());
  });

  it('holds no key, no password, no payload, no header, no result and no error text', async () => {
    assert.equal((await endWith(service, 'SIGTERM')).code, 0);
    const log = service
      .output()
      .split('\n')
      .filter((line) => line.startsWith('{'));
    // With an embedded Postgres the greeting shows the default key to whoever has started it; the log does not.
    const rest = service
      .output()
      .split('\n')
      .filter((line) => !line.startsWith('{') && !line.includes(service.client.key));
    const written = [...log, ...rest].join('\n');
    for (const message of ['operation', 'operation failed', 'one item of a batch cannot be stored', 'postgres: ']) {
      assert.ok(written.includes(`"msg":"${message}`), `there is a line that says ${message}`);
    }
    assert.ok(written.includes('"code":"23514"'), 'the refusals of the database are in it');
    assert.deepEqual(secrets.leakedIn(written), []);
    const exported = Buffer.concat(collector.bodies).toString('latin1');
    assert.ok(exported.includes('messaging.destination.name'), 'spans were exported');
    assert.deepEqual(secrets.leakedIn(exported), []);
  });
});
