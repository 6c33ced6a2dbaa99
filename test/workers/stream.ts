import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Proxy, startProxy } from '../helpers/proxy.js';
import { type Client, until } from '../helpers/service.js';
import {
  createInstallation,
  endWith,
  freePort,
  type Installation,
  runProgram,
  type Running,
  startService,
} from '../helpers/service-process.js';
import type { Worker } from './room.js';

const CONCURRENCY = 10;
const VISIBILITY_SECONDS = 15;
/** Longer than the time to the first heartbeat. */
const LONG_MS = 6_000;
/** A worker that does not heed the drain holds the service up for longer. */
const STOP_MS = 5_000;
const GRACE_SECONDS = 2;
/** More than the grace, less than after it a worker gives up. */
const HAND_BACK_MS = 4_500;

/** Declares the tests that a worker on the stream passes beyond the scenario, each on a service of its own. */
export function proveStream(worker: Worker, skip: string | false): void {
  test(
    `C25: the ${worker.name} that is drained settles what it has, lets the service stop, and goes on with the next`,
    { skip },
    () => withWorker(worker, drained),
  );
  test(
    `C25: the ${worker.name} settles what it has finished while the service was gone, no attempt spent`,
    { skip },
    () => withWorker(worker, killed),
  );
  test(`the ${worker.name} tells the next stream what was lost with the last`, { skip }, () =>
    withWorker(worker, cutOff),
  );
  test(`C25: the ${worker.name} that is told to stop hands back what outlasts its time to finish`, { skip }, () =>
    withWorker(worker, outlasting),
  );
}

interface Room {
  readonly client: Client;
  readonly running: Running;
  /** Between the worker and the service. */
  readonly proxy: Proxy;
  /** Ends the service, starts it again, and answers how many milliseconds the end took. */
  readonly restart: (signal: 'SIGTERM' | 'SIGKILL') => Promise<number>;
}

async function drained({ client, restart }: Room): Promise<void> {
  const ids = await fill(client, 200, 100);
  await until('some are done', async () => (await open(client)) < ids.length - 20);
  const took = await restart('SIGTERM');
  assert.ok(took < STOP_MS, `the stop took ${took} ms`);
  assert.ok((await open(client)) > 0, 'the stop came when all was done');
  await until('the rest is done', async () => (await open(client)) === 0, 30_000);
  await assertAckedOnce(client, ids);
}

async function killed({ client, restart }: Room): Promise<void> {
  const ids = await fill(client, CONCURRENCY, LONG_MS);
  const expiries = async (): Promise<(string | undefined)[]> =>
    Promise.all(ids.map(async (id) => (await client.get(`/v1/jobs/${id}`)).body.leaseExpiresAt));
  let first: (string | undefined)[] = [];
  await until('all are at work', async () => {
    first = await expiries();
    return !first.includes(undefined);
  });
  await until('all had a heartbeat', async () =>
    (await expiries()).every((instant, index) => instant !== undefined && instant !== first[index]),
  );
  await restart('SIGKILL');
  await until('all are done', async () => (await open(client)) === 0, 30_000);
  await assertAckedOnce(client, ids);
}

async function cutOff({ client, proxy }: Room): Promise<void> {
  const ids = await fill(client, CONCURRENCY, 1_000);
  await until('all are at work', async () => (await counts(client)).leased === CONCURRENCY);
  let lost = '';
  proxy.rules.toServer = (chunk) => {
    lost += chunk.toString('latin1');
    return 'drop';
  };
  // Each ack bears the result of the demonstration handler.
  await until('all acks are lost', () => lost.split('"attempt"').length - 1 === CONCURRENCY);
  assert.equal(await open(client), CONCURRENCY);
  proxy.rules.toServer = undefined;
  for (const link of proxy.links) link.cut();
  await until('all are done', async () => (await open(client)) === 0);
  await assertAckedOnce(client, ids);
}

async function outlasting({ client, running }: Room): Promise<void> {
  const ids = await fill(client, CONCURRENCY, 60_000);
  const leased = async () => (await counts(client)).leased;
  await until('all are at work', async () => (await leased()) === CONCURRENCY);
  const { code, took } = await endWith(running, 'SIGTERM');
  assert.equal(code, 0, running.output());
  assert.ok(took > GRACE_SECONDS * 1_000 && took < HAND_BACK_MS, `the stop took ${took} ms`);
  assert.deepEqual(await counts(client), { scheduled: 0, ready: ids.length, leased: 0, dead: 0 });
}

async function withWorker(worker: Worker, prove: (room: Room) => Promise<void>): Promise<void> {
  const installation = await createInstallation();
  const env = { STINT_GRPC_PORT: String(await freePort()) };
  let service = await startService(installation, env);
  const proxy = await startProxy(`http://${service.grpc}`);
  const running = startWorker(worker, installation, new URL(proxy.url).host);
  try {
    await prove({
      client: service.client,
      running,
      proxy,
      restart: async (signal) => {
        const { took } = await endWith(service, signal);
        service = await startService(installation, env);
        return took;
      },
    });
    if (running.child.exitCode === null) await endWith(running, 'SIGTERM');
    assert.equal((await running.exit).code, 0, running.output());
  } finally {
    running.child.kill('SIGKILL');
    await running.exit;
    await proxy.close();
    // It has ended when it could not be started again, which is what the test has to tell.
    if (service.child.exitCode === null) await endWith(service, 'SIGTERM');
    await installation.remove();
  }
}

function startWorker(worker: Worker, { keyFile }: Installation, target: string): Running {
  const connection = ['--target', target, '--key-file', keyFile, '--queue', 'restart', '--worker', 'w1'];
  const pace = ['--concurrency', String(CONCURRENCY), '--grace-seconds', String(GRACE_SECONDS)];
  const [program, ...args] = worker.command([...connection, ...pace]);
  return runProgram(program!, args, { PYTHONDONTWRITEBYTECODE: '1' });
}

async function fill(client: Client, count: number, ms: number): Promise<string[]> {
  const put = await client.put('/v1/queues/restart', { visibilityTimeout: `${VISIBILITY_SECONDS}s` });
  assert.ok(put.status < 300, put.text);
  const jobs = Array.from({ length: count }, () => ({ queue: 'restart', payload: { ms } }));
  const { status, body, text } = await client.post('/v1/jobs/batch', { jobs });
  assert.equal(status, 201, text);
  return body.jobs.map(({ id }: { id: string }) => id);
}

async function open(client: Client): Promise<number> {
  const { scheduled, ready, leased } = await counts(client);
  return scheduled + ready + leased;
}

async function counts(client: Client): Promise<Record<'scheduled' | 'ready' | 'leased' | 'dead', number>> {
  return (await client.get('/v1/queues/restart/stats')).body.counts;
}

/** What was leased and never sent to the worker does not count. */
async function assertAckedOnce(client: Client, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const { body } = await client.get(`/v1/jobs/${id}`);
    const outcomes = body.attempts.map(({ outcome }: { outcome: string }) => outcome);
    const delivered = outcomes.filter((outcome: string) => outcome !== 'UNDELIVERED');
    assert.deepEqual([body.state, delivered], ['completed', ['ACKED']], JSON.stringify(body));
  }
}
