import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { grpcClient, type GrpcClient } from './helpers/grpc.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from './helpers/service.js';

const LIMIT = 200;
const SECONDS = 9;
const WITHIN = 0.2;
/** Of the first second, in which instances do not know of each other yet, nothing is promised. */
const FIRST_MS = 1_000;
/** Database calls of the tasks and the connections' own, of both instances. */
const CALLS_A_SECOND = 40;

/** A call that asks the database nothing. */
const NO_DATABASE = { path: '/v1/leases/ack', body: '{"items":[{"leaseToken":"none"}]}' };

interface Flood {
  readonly base: string;
  readonly key: string;
  readonly path: string;
  readonly body: string;
  /** Calls a second. */
  readonly rate: number;
}

/** Calls at that rate, whatever becomes of them; answers how many went through in the seconds after the first. */
async function flood({ base, key, path, body, rate }: Flood): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const [began, calls] = [performance.now(), [] as Promise<void>[]];
  let through = 0;
  const call = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const asked = request(base + path, { method: 'POST', agent, headers }, (answer) => {
        const status = answer.statusCode ?? 0;
        if (status >= 300 && status !== 429) reject(new Error(`status ${status}`));
        const second = (performance.now() - began - FIRST_MS) / 1_000;
        if (status < 300 && second > 0 && second <= SECONDS) through += 1;
        answer.resume().once('end', resolve);
      });
      asked.once('error', reject).end(body);
    });
  for (let made = 0; performance.now() - began < FIRST_MS + SECONDS * 1_000; await pause(5)) {
    for (; made < ((performance.now() - began) / 1_000) * rate; made += 1) calls.push(call());
  }
  await Promise.all(calls);
  agent.destroy();
  return through;
}

describe('two instances', () => {
  let first: TestService;
  let second: TestService;

  before(async () => {
    first = await startTestService();
    second = await first.another();
  });
  after(async () => {
    await second.stop();
    await first.stop();
  });

  async function tenantWith(limits: object): Promise<{ readonly near: Client; readonly far: Client }> {
    const name = `t-${randomBytes(6).toString('hex')}`;
    assert.equal((await first.admin.post('/v1/admin/tenants', { name, limits })).status, 201);
    const scopes = ['enqueue', 'work', 'read', 'manage'];
    const { body } = await first.admin.post(`/v1/admin/tenants/${name}/keys`, { name: 'k', scopes });
    return { near: clientFor(first.base, body.secret as string), far: clientFor(second.base, body.secret as string) };
  }

  async function databaseCalls(): Promise<number> {
    const texts = await Promise.all([first, second].map(({ admin }) => admin.get('/metrics')));
    return texts
      .flatMap(({ text }) => text.split('\n'))
      .filter((line) => line.startsWith('stint_database_calls_total{'))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  function assertNear(through: number, limit: number): void {
    const share = through / (limit * SECONDS);
    assert.ok(Math.abs(share - 1) <= WITHIN, `${(share * 100).toFixed(0)} % of the limit went through`);
  }

  for (const [how, rates] of [
    ['evenly', [300, 300]],
    ['one-sidedly', [500, 20]],
    ['on one side alone', [500, 0]],
  ] as const) {
    it(`keep to requestsPerSecond together when they are called ${how}, and write nothing for a call`, async () => {
      const { near } = await tenantWith({ requestsPerSecond: LIMIT });
      const calls = await databaseCalls();
      const floods = [first, second].map(({ base }, index) =>
        flood({ base, key: near.key, ...NO_DATABASE, rate: rates[index]! }),
      );
      const through = (await Promise.all(floods)).reduce((sum, each) => sum + each);
      assertNear(through, LIMIT);
      const perSecond = ((await databaseCalls()) - calls) / (SECONDS + 1);
      assert.ok(perSecond <= CALLS_A_SECOND, `${perSecond} database calls a second`);
    });
  }

  it('keep to jobsPerSecond together, in batches', async () => {
    const { near } = await tenantWith({ jobsPerSecond: LIMIT });
    const jobs = Array.from({ length: 10 }, () => ({ queue: 'q' }));
    const body = JSON.stringify({ jobs });
    const floods = [first, second].map(({ base }) =>
      flood({ base, key: near.key, path: '/v1/jobs/batch', body, rate: 40 }),
    );
    const through = (await Promise.all(floods)).reduce((sum, each) => sum + each);
    assertNear(through * 10, LIMIT);
  });

  it('keep to parkedLeases together', async () => {
    const { near, far } = await tenantWith({ parkedLeases: 4 });
    const park = (client: Client, wait: string): Promise<Answer> => client.post('/v1/queues/q/lease', { wait });
    const parked = Array.from({ length: 4 }, () => park(near, '30s'));
    await until('the other instance knows', async () => (await park(far, '100ms')).status === 429, 5_000);
    assert.equal((await near.post('/v1/jobs/batch', { jobs: [{ queue: 'q' }, { queue: 'q' }] })).status, 201);
    await until('the other one has room again', async () => (await park(far, '50ms')).status === 200, 5_000);
    await near.post('/v1/jobs/batch', { jobs: Array.from({ length: 8 }, () => ({ queue: 'q' })) });
    for (const { status } of await Promise.all(parked)) assert.equal(status, 200);
  });

  it('keep to streams together', async () => {
    const { near } = await tenantWith({ streams: 2 });
    await near.put('/v1/queues/q');
    const clients = [first, second].map(({ grpc }) => grpcClient(grpc, near.key));
    const open = (client: GrpcClient): ReturnType<GrpcClient['work']> => {
      const stream = client.work();
      stream.send({ hello: { queues: [{ name: 'q' }], credits: 1 } });
      return stream;
    };
    const held = [open(clients[0]!), open(clients[0]!)];
    const refusedFar = async (): Promise<boolean> => {
      const tried = open(clients[1]!);
      const ended = await Promise.race([tried.ended, pause(300, undefined)]);
      tried.stream.cancel();
      return ended?.code === 8 && ended.details === 'the tenant may have 2 streams at once';
    };
    await until('the other instance refuses', refusedFar, 5_000);
    for (const { stream } of held) stream.end();
    await Promise.all(held.map(({ ended }) => ended));
    await until('the other one has room again', async () => !(await refusedFar()), 5_000);
    for (const client of clients) client.close();
  });
});

describe('the waiting room', () => {
  const MOST = 1_000;

  it('is left half to others by a tenant that parks leases without a limit', async () => {
    const service = await startTestService({ STINT_MAX_WAITING: String(MOST) });
    const [greedy, other] = [await service.tenant(), await service.tenant()];
    const leaving = new AbortController();
    const park = (client: Client): Promise<Answer> =>
      client.post('/v1/queues/q/lease', { wait: '60s' }, { signal: leaving.signal });
    let refused = 0;
    const parked = Array.from({ length: MOST / 2 + 20 }, () =>
      park(greedy).then(
        (answer) => {
          if (leaving.signal.aborted) return;
          refused += 1;
          assert.equal(answer.status, 429, answer.text);
          assert.equal(answer.body.code, 'QUOTA_EXCEEDED');
          assert.match(answer.body.detail as string, /a tenant may have 500 parked leases on one instance/);
        },
        (error: unknown) => assert.ok(leaving.signal.aborted, String(error)),
      ),
    );
    await until('what is beyond half of it is refused', () => refused === 20, 20_000);
    const waiting = park(other);
    await pause(200);
    assert.equal((await other.post('/v1/queues/q/jobs', {})).status, 201);
    assert.equal((await waiting).body.jobs.length, 1);
    leaving.abort();
    await Promise.all(parked);
    const again = (): Promise<Answer> => greedy.post('/v1/queues/q/lease', { wait: '100ms' });
    await until('there is room again', async () => (await again()).status === 200, 5_000);
    await service.stop();
  });
});
