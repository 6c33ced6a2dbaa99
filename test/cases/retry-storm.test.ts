import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import { lease } from '../contract/jobs.js';

const JOBS = 300;
let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

test('C76: jobs nacked in the same second are retried over at least a fifth of their delay, and none earlier', async () => {
  const jobs = Array.from({ length: JOBS }, () => ({ queue: 'storm' }));
  await client.post('/v1/jobs/batch', { jobs });
  const items = (await lease(client, 'storm', { maxJobs: JOBS })).map(({ leaseToken }) => ({ leaseToken }));
  const { results } = (await client.post('/v1/leases/nack', { items })).body;
  assert.ok(results.every(({ outcome }: any) => outcome === 'OK'));
  const rows = await service.sql(
    `select (extract(epoch from s.due_at - a.ended_at) * 1000)::float8 as ms
     from stint.scheduled s join stint.attempt a on a.job_id = s.job_id and a.epoch = s.epoch order by ms`,
  );
  const delays = rows.map(({ ms }: { ms: number }) => ms);
  assert.equal(delays.length, JOBS);
  const [least, most] = [delays[0]!, delays.at(-1)!];
  assert.ok(least >= 10_000, `one is retried after ${least} ms`);
  assert.ok(most <= 12_000.001, `one is retried after ${most} ms`);
  // Of 300 even draws of [0, 2000) ms the chance that the outermost are less than 1,900 ms apart is below 10^-5.
  assert.ok(most - least > 1_900, `all are retried within ${most - least} ms`);
  const fullest = Math.max(
    ...Array.from(
      { length: 10 },
      (_, tenth) => delays.filter((ms) => Math.min(9, Math.floor((ms - 10_000) / 200)) === tenth).length,
    ),
  );
  assert.ok(fullest < JOBS / 4, `${fullest} of ${JOBS} are retried in the same tenth`);
});

test('C76: two refusals with 429 need not say the same Retry-After, and none says less than a second', async () => {
  await client.put('/v1/queues/full', { maxBacklog: 1 });
  await client.post('/v1/queues/full/jobs', {});
  const answers = await Promise.all(Array.from({ length: 50 }, () => client.post('/v1/queues/full/jobs', {})));
  const seconds = answers.map(({ status, headers }) => (status === 429 ? Number(headers.get('retry-after')) : 0));
  assert.ok(
    seconds.every((each) => Number.isInteger(each) && each >= 1),
    seconds.join(' '),
  );
  assert.ok(new Set(seconds).size > 1, seconds.join(' '));
});
