import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { enqueue, lease, leaseOne, putQueue, settleOk } from '../contract/jobs.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { scrape, sumOf } from './scrape.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

async function metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
  return sumOf([await scrape(service.base)], name, labels) ?? 0;
}

const events = (event: string): Promise<number> => metric('stint_jobs_total', { event });

test('the time from ready to the first lease is measured once a job, from its due time, and no lease after it', async () => {
  const within = (le: string): Promise<number> => metric('stint_pick_up_seconds_bucket', { le });
  await enqueue(client, 'prompt');
  const first = await leaseOne(client, 'prompt');
  assert.equal(await metric('stint_pick_up_seconds_count'), 1);
  assert.equal(await within('10'), 1);
  await settleOk(client, 'release', first);
  await until('it is leased again', async () => (await lease(client, 'prompt')).length === 1);
  assert.equal(await metric('stint_pick_up_seconds_count'), 1, 'a second lease is not a first');
  assert.deepEqual([await events('leased'), await events('redelivered')], [2, 1]);

  const old = await enqueue(client, 'late');
  await service.sql(`update stint.job set run_at = run_at - interval '50 minutes' where id = $1::uuid`, [old]);
  await leaseOne(client, 'late');
  assert.equal((await within('3600')) - (await within('900')), 1);
  const sum = await metric('stint_pick_up_seconds_sum');
  assert.ok(sum >= 3_000 && sum < 3_060, `${sum}`);
});

test('a job that dies with its lease is counted as expired and dead', async () => {
  await putQueue(client, 'fragile', { maxAttempts: 1 });
  await enqueue(client, 'fragile');
  const [expired, dead] = [await events('expired'), await events('dead')];
  assert.equal((await lease(client, 'fragile', { visibilityTimeout: '1s' })).length, 1);
  await until('it is dead', async () => (await events('dead')) === dead + 1);
  assert.equal(await events('expired'), expired + 1);
});

test('a job that becomes due is counted as promoted, one of a schedule as enqueued', async () => {
  const [enqueued, promoted] = [await events('enqueued'), await events('promoted')];
  await enqueue(client, 'soon', { delay: '200ms' });
  await until('it is promoted', async () => (await events('promoted')) === promoted + 1);
  assert.equal((await client.put('/v1/schedules/often', { every: '1s', queue: 'often' })).status, 200);
  await until('it has fired', async () => (await events('enqueued')) > enqueued + 1, 15_000);
});
