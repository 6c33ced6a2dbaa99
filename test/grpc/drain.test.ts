import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type GrpcClient, grpcClient, type WorkerStream } from '../helpers/grpc.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

/** A second instance, which is the one to be stopped, with a client of its tenant over each transport. */
async function stoppable(
  t: TestContext,
  env: Readonly<Record<string, string>>,
): Promise<{ first: Client; other: TestService; rest: Client; grpc: GrpcClient }> {
  const service = await startTestService();
  const first = await service.tenant();
  const other = await service.another(env);
  const grpc = grpcClient(other.grpc, first.key);
  t.after(async () => {
    grpc.close();
    await service.stop();
  });
  return { first, other, rest: clientFor(other.base, first.key), grpc };
}

function hello(grpc: GrpcClient, queue: string): WorkerStream {
  const worker = grpc.work();
  worker.send({ hello: { queues: [{ name: queue }], credits: 10 } });
  return worker;
}

const jobsOf = ({ received }: WorkerStream): any[] => received.flatMap(({ jobs }) => jobs?.jobs ?? []);
const isTold = ({ received }: WorkerStream): boolean => received.some(({ drain }) => drain != null);

test('C27: until the listeners close streams work on and new ones are taken; then all of them are asked to go', async (t) => {
  const { first, other, rest, grpc } = await stoppable(t, { STINT_DRAIN_DELAY_SECONDS: '2' });
  const before = hello(grpc, 'q');
  await first.post('/v1/queues/q/jobs', {});
  await until('a job', () => jobsOf(before).length === 1);
  const stopped = other.stop();
  await until('it is not ready', async () => (await rest.get('/readyz')).status === 503);
  const meanwhile = hello(grpc, 'later');
  await first.post('/v1/queues/q/jobs', {});
  await first.post('/v1/queues/later/jobs', {});
  await until('jobs for both', () => jobsOf(before).length === 2 && jobsOf(meanwhile).length === 1, 1_500);
  assert.deepEqual([before, meanwhile].map(isTold), [false, false]);
  await until('both are told', () => [before, meanwhile].every(isTold), 4_000);
  for (const worker of [before, meanwhile]) {
    const acks = jobsOf(worker).map(({ leaseToken }) => ({ leaseToken }));
    worker.send({ settle: { id: 1, items: { acks } } });
    await until('the answer', () => worker.received.some(({ settled }) => settled != null));
    worker.stream.end();
    assert.equal((await worker.ended).code, 0);
  }
  await stopped;
});

test('the delay is not taken from the time that calls under way are given', async (t) => {
  const { other, rest } = await stoppable(t, { STINT_DRAIN_DELAY_SECONDS: '2', STINT_DRAIN_SECONDS: '1' });
  const poll = rest.post('/v1/queues/idle/lease', { wait: '30s' });
  await until('it is parked', async () => /^stint_parked_leases 1$/m.test((await rest.get('/metrics')).text));
  const began = performance.now();
  const stopped = other.stop();
  const { status, body } = await poll;
  assert.deepEqual([status, body], [200, { jobs: [] }]);
  assert.ok(performance.now() - began > 1_900, 'answered when the delay is over, not before');
  await stopped;
  assert.ok(performance.now() - began < 4_000);
});

test('streams that wait for jobs do not hold up a stop: they are asked to go before their waiting ends', async (t) => {
  const { other, rest, grpc } = await stoppable(t, {});
  const workers = ['one', 'two', 'three'].map((queue) => hello(grpc, queue));
  await until('they wait', async () => /^stint_parked_leases 3$/m.test((await rest.get('/metrics')).text));
  for (const worker of workers) worker.stream.on('data', ({ drain }: any) => drain != null && worker.stream.end());
  const began = performance.now();
  await other.stop();
  assert.ok(performance.now() - began < 1_200, `the stop took ${performance.now() - began} ms`);
  for (const worker of workers) assert.equal((await worker.ended).code, 0);
});
