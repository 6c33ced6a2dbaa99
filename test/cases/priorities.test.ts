import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { enqueue, lease, leaseOne, milliseconds, settleOk } from '../contract/jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const batch = (queue: string, jobs: readonly object[]) =>
  client.post('/v1/jobs/batch', { jobs: jobs.map((job) => ({ queue, ...job })) });

test('C50: while work of a higher priority keeps coming, a lower one waits, and its age is in sight', async () => {
  const low = await enqueue(client, 'starving', { priority: -1 });
  await service.sql(`update stint.ready set ready_at = ready_at - interval '1 hour' where job_id = $1`, [low]);
  await enqueue(client, 'starving', { priority: 1 });
  for (let round = 0; round < 30; round += 1) {
    await enqueue(client, 'starving', { priority: 1 });
    const job = await leaseOne(client, 'starving');
    assert.equal(job.priority, 1);
    await settleOk(client, 'ack', job);
  }
  const stats = await client.get('/v1/queues/starving/stats');
  assert.ok(milliseconds(stats.body.oldestReadyAge) > 3_500_000, stats.body.oldestReadyAge);
  await settleOk(client, 'ack', await leaseOne(client, 'starving'));
  assert.equal((await leaseOne(client, 'starving')).id, low);
});

test('C50: equal priorities of the same instant are leased in the order of enqueueing', async () => {
  const made = (
    await batch(
      'ties',
      Array.from({ length: 300 }, () => ({ priority: 4 })),
    )
  ).body.jobs.map(({ id }: any) => id);
  const got: string[] = [];
  while (got.length < 300) got.push(...(await lease(client, 'ties', { maxJobs: 37 })).map(({ id }) => id));
  assert.deepEqual(got, made);
});

test('C50: a job of high priority that is due later does not block those that are ready', async () => {
  await batch('future', [{ priority: 1000, delay: '1h' }, { priority: -1000 }]);
  assert.equal((await leaseOne(client, 'future')).priority, -1000);
  assert.deepEqual(await lease(client, 'future'), []);
});

test('C50: a priority that is changed while the job waits counts from then on', async () => {
  const made = (await batch('changed', [{}, {}, {}])).body.jobs.map(({ id }: any) => id);
  assert.equal((await client.patch(`/v1/jobs/${made[2]}`, { priority: 1 })).status, 200);
  assert.equal((await client.patch(`/v1/jobs/${made[0]}`, { priority: -1 })).status, 200);
  const got = (await lease(client, 'changed', { maxJobs: 3 })).map(({ id }) => id);
  assert.deepEqual(got, [made[2], made[1], made[0]]);
});

test('C50: a retry keeps its priority and goes to the tail of it', async () => {
  const made = (await batch('retried', [{ priority: 2 }, { priority: 2 }, { priority: 1 }])).body.jobs.map(
    ({ id }: any) => id,
  );
  await settleOk(client, 'nack', await leaseOne(client, 'retried'), { delay: '200ms' });
  await until('the retry to be ready', async () => (await client.get('/v1/queues/retried')).body.counts.ready === 3);
  const got = (await lease(client, 'retried', { maxJobs: 3 })).map(({ id }) => id);
  assert.deepEqual(got, [made[1], made[0], made[2]]);
});
