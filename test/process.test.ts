import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { clientFor, until } from './helpers/service.js';
import {
  createInstallation,
  endWith,
  type Installation,
  isAlive,
  launchService,
  runProgram,
  startService,
  type ServiceProcess,
} from './helpers/service-process.js';

/** What a stop may take, with 8 s for calls under way and the time Postgres needs. */
const STOP_MS = 10_000;

let installation: Installation;
const started: ServiceProcess[] = [];

before(async () => {
  installation = await createInstallation();
});

afterEach(async () => {
  for (const { child, exit } of started.splice(0)) {
    child.kill('SIGTERM');
    await exit;
  }
});

after(() => installation.remove());

async function start(env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  const service = await startService(installation, env);
  started.push(service);
  return service;
}

async function enqueue({ client }: ServiceProcess, queue: string, count: number): Promise<string[]> {
  const jobs = Array.from({ length: count }, (_, number) => ({ queue, payload: { number } }));
  const { status, body, text } = await client.post('/v1/jobs/batch', { jobs });
  assert.equal(status, 201, text);
  return body.jobs.map(({ id }: { id: string }) => id);
}

async function lease({ client }: ServiceProcess, queue: string, maxJobs: number): Promise<any[]> {
  const { status, body, text } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs, visibilityTimeout: '5m' });
  assert.equal(status, 200, text);
  return body.jobs;
}

function assertCleanLog(service: ServiceProcess): void {
  const bad = service.log().filter(({ level }) => level === 'error' || level === 'fatal');
  assert.deepEqual(bad, []);
  assert.doesNotMatch(service.output(), /after calling end|Cannot use a pool|UnhandledPromise|TypeError/);
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} to the whole process group stops the service with exit code 0, Postgres last and in peace`, async () => {
    const service = await start();
    const ids = await enqueue(service, `kept-${signal.toLowerCase()}`, 500);
    const postgres = await installation.postgresPid();
    const { code, took } = await endWith(service, signal, 'group');
    assert.equal(code, 0, service.output());
    assert.ok(took < STOP_MS, `took ${took} ms`);
    assertCleanLog(service);
    assert.ok(!isAlive(postgres), 'Postgres still runs');
    const log = (await installation.postgresLog()).split('\n').filter((line) => line.includes(`[${postgres}]`));
    assert.match(log.at(-1)!, /database system is shut down/);
    assert.doesNotMatch(await installation.postgresLog(), /terminating connection|not properly shut down/);

    const again = await start();
    const jobs = await again.client.get(`/v1/queues/kept-${signal.toLowerCase()}/jobs?limit=1000`);
    assert.deepEqual(jobs.body.jobs.map(({ id }: { id: string }) => id).toSorted(), ids.toSorted());
    assert.equal((await endWith(again, 'SIGTERM')).code, 0);
  });
}

test('C26: what was answered with success before and during a stop is there after it', async () => {
  // The stop lasts long enough for a second signal to come in the middle of it.
  const service = await start({ STINT_DRAIN_DELAY_SECONDS: '1' });
  await enqueue(service, 'acked', 400);
  const leased = await lease(service, 'acked', 400);
  const polls = Array.from({ length: 50 }, () => service.client.post('/v1/queues/idle/lease', { wait: '30s' }));
  const [acked, stored] = [[] as string[], [] as string[]];
  const calls = [
    ...leased.slice(0, 200).map((job) => ack(service, job, acked)),
    ...Array.from({ length: 20 }, (_, lane) => keepEnqueueing(service, stored, leased.slice(200 + lane * 10), acked)),
  ];
  await until('calls are answered', () => acked.length > 0 && stored.length > 20);
  const first = endWith(service, 'SIGTERM');
  await until('the stop has begun', () => service.output().includes('"stopping"'));
  service.child.kill('SIGTERM');
  const { code, took } = await first;
  assert.equal(code, 0, service.output());
  assert.ok(took < STOP_MS, `took ${took} ms`);
  assertCleanLog(service);
  assert.match(service.output(), /already stopping/);
  await Promise.all(calls);
  for (const { status, body } of await Promise.all(polls)) assert.deepEqual([status, body], [200, { jobs: [] }]);

  const again = await start();
  const states = await again.client.get('/v1/queues/acked/jobs?state=completed&limit=1000');
  const completed = new Set(states.body.jobs.map(({ id }: { id: string }) => id));
  assert.deepEqual(
    acked.filter((id) => !completed.has(id)),
    [],
  );
  const found = await installation.sql('select job_id as id from stint.ready where job_id = any($1::uuid[])', [stored]);
  assert.equal(found.length, stored.length);
});

async function ack({ client }: ServiceProcess, { id, leaseToken }: any, acked: string[]): Promise<boolean> {
  const answer = await client.post('/v1/leases/ack', { items: [{ leaseToken }] }).catch(gone);
  if (answer?.status === 200) acked.push(id as string);
  return answer?.status === 200;
}

/** Enqueues and acks in turn until the service refuses, so that calls of both kinds are under way at any moment. */
async function keepEnqueueing(
  service: ServiceProcess,
  stored: string[],
  leased: any[],
  acked: string[],
): Promise<void> {
  for (let turn = 0; ; turn += 1) {
    const answer = await service.client.post('/v1/queues/late/jobs', { payload: turn }).catch(gone);
    if (answer?.status !== 201) return;
    stored.push(answer.body.id);
    if (turn < 10 && !(await ack(service, leased[turn], acked))) return;
  }
}

test('C27: a hundred idle connections, a half-sent request and a running long poll do not hold up a stop', async () => {
  const service = await start();
  const agent = new Agent({ keepAlive: true, maxSockets: 100 });
  await Promise.all(Array.from({ length: 100 }, () => getLivez(agent)));
  const slow = connect(installation.port, '127.0.0.1');
  slow.on('error', () => undefined);
  slow.write('POST /v1/queues/mail/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"pay');
  const header = connect(installation.port, '127.0.0.1');
  header.on('error', () => undefined);
  header.write('POST /v1/queues/mail/jobs HT');
  await Promise.all([once(slow, 'connect'), once(header, 'connect')]);
  const poll = service.client.post('/v1/queues/idle/lease', { wait: '50s' });
  await until(
    'what was sent before has been looked at',
    async () => (await service.client.get('/readyz')).status === 200,
  );
  const { code, took } = await endWith(service, 'SIGTERM');
  assert.equal(code, 0, service.output());
  assert.ok(took < STOP_MS, `took ${took} ms`);
  const answer = await poll;
  assert.deepEqual(answer.body, { jobs: [] });
  assert.equal(answer.headers.get('connection'), 'close');
  for (const socket of [slow, header]) await closed(socket);
  agent.destroy();
  assertCleanLog(service);
});

for (const [moment, come] of [
  ['the cluster is being made', ({ dataDirectory }) => existsSync(path.join(dataDirectory, 'postgres'))],
  ['Postgres is starting', ({ dataDirectory }) => existsSync(path.join(dataDirectory, 'postgres.log'))],
  ['the migrations have run', (_, output) => output.includes('migration applied')],
] as readonly (readonly [string, (fresh: Installation, output: string) => boolean])[]) {
  test(`C26: a signal while ${moment} ends a first start with exit code 0, and the next start works`, async () => {
    const fresh = await createInstallation();
    try {
      const running = launchService(fresh);
      await until(moment, () => come(fresh, running.output()), 40_000);
      const { code, took } = await endWith(running, 'SIGTERM', 'group');
      assert.equal(code, 0, running.output());
      assert.ok(took < STOP_MS, `took ${took} ms`);
      const pidFile = path.join(fresh.dataDirectory, 'postgres', 'data', 'postmaster.pid');
      await until('its Postgres has ended', () => !existsSync(pidFile));
      const service = await startService(fresh);
      assert.equal((await service.client.post('/v1/queues/mail/jobs', {})).status, 201);
      assert.equal((await endWith(service, 'SIGTERM')).code, 0);
    } finally {
      await fresh.remove();
    }
  });
}

test('a service killed outright leaves Postgres running; the next start replaces it and finds the data', async () => {
  const service = await start();
  const ids = await enqueue(service, 'killed', 300);
  const postgres = await installation.postgresPid();
  assert.equal((await endWith(service, 'SIGKILL')).signal, 'SIGKILL');
  assert.ok(isAlive(postgres), 'Postgres went down with the service');
  const again = await start();
  assert.match(again.output(), /stopped a Postgres that a killed service had left running/);
  assert.notEqual(await installation.postgresPid(), postgres);
  assert.equal((await again.client.get('/v1/queues/killed/stats')).body.counts.ready, ids.length);
});

test('Postgres killed under load is started again: readiness dips, nothing that was answered is lost', async () => {
  const service = await start();
  const stored: string[] = [];
  let stopped = false;
  let refused = 0;
  const load = Array.from({ length: 8 }, async () => {
    while (!stopped) {
      const { status, body } = await service.client.post('/v1/queues/crash/jobs', { payload: 1 });
      if (status === 201) stored.push(body.id);
      else refused += 1;
      assert.ok(status === 201 || status === 503, `status ${status}`);
    }
  });
  await until('jobs are stored', () => stored.length > 200);
  process.kill(await installation.postgresPid(), 'SIGKILL');
  await until('readiness says no', async () => (await service.client.get('/readyz')).status === 503);
  await until('readiness says yes', async () => (await service.client.get('/readyz')).status === 200, 30_000);
  const before = stored.length;
  await until('jobs are stored again', () => stored.length > before + 100, 20_000);
  stopped = true;
  await Promise.all(load);
  assert.match(service.output(), /Postgres has ended/);
  const counts = (await service.client.get('/v1/queues/crash/stats')).body.counts;
  assert.ok(counts.ready >= stored.length && counts.ready <= stored.length + refused, JSON.stringify(counts));
  const found = await installation.sql('select count(*)::int as n from stint.ready where job_id = any($1::uuid[])', [
    stored,
  ]);
  assert.equal(found[0].n, stored.length);
});

const withoutCurl = spawnSync('curl', ['--version']).error !== undefined && 'curl is not installed';

test('the three commands that the service prints work as pasted', { skip: withoutCurl }, async () => {
  const service = await start();
  const commands = service
    .output()
    .split('\n')
    .filter((line) => line.startsWith('  ') && line.includes('curl'));
  assert.equal(commands.length, 3);
  const shell = runProgram('bash', ['-c', `set -e\n${commands.join('\necho\n')}`]);
  assert.equal((await shell.exit).code, 0, shell.output());
  const [enqueued, leased, acked] = shell
    .output()
    .trim()
    .split(/\n+/)
    .map((line) => JSON.parse(line));
  assert.equal(enqueued.state, 'ready');
  assert.equal(leased.jobs[0].id, enqueued.id);
  assert.deepEqual(leased.jobs[0].payload, { to: 'ada@example.com' });
  assert.deepEqual(acked, { results: [{ outcome: 'OK' }] });
  const admin = clientFor(
    service.base,
    readFileSync(path.join(installation.dataDirectory, 'admin-key'), 'utf8').trim(),
  );
  assert.equal((await admin.get('/v1/admin/tenants')).status, 200);
});

/** A connection that was cut has no answer; a call without one may or may not have been carried out. */
function gone(error: unknown): undefined {
  assert.ok(error instanceof TypeError, String(error));
  return undefined;
}

async function getLivez(agent: Agent): Promise<void> {
  const [response] = await once(
    httpRequest({ agent, port: installation.port, host: '127.0.0.1', path: '/livez' }).end(),
    'response',
  );
  response.resume();
  await once(response, 'end');
}

async function closed(socket: Socket): Promise<void> {
  if (!socket.destroyed) await once(socket.resume(), 'close');
}
