import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from './helpers/service.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

async function fill(queue: string, jobs: number): Promise<void> {
  const answer = await client.post('/v1/jobs/batch', { jobs: Array.from({ length: jobs }, () => ({ queue })) });
  assert.equal(answer.status, 201, answer.text);
}

async function lease(queue: string, body: object = {}): Promise<any[]> {
  const answer = await client.post(`/v1/queues/${queue}/lease`, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.body.jobs as any[];
}

test('maxInFlight bounds the leases at once, also when two instances claim at the same time', async () => {
  const put = await client.put('/v1/queues/narrow', { maxInFlight: 3 });
  assert.equal(put.body.maxInFlight, 3, put.text);
  await fill('narrow', 40);
  const second = await service.another();
  try {
    const other = { ...client, base: second.base };
    for (let round = 0; round < 5; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          fetch(`${index % 2 === 0 ? client.base : other.base}/v1/queues/narrow/lease`, {
            method: 'POST',
            headers: { authorization: `Bearer ${client.key}`, 'content-type': 'application/json' },
            body: JSON.stringify({ maxJobs: 2 }),
          }).then(async (response) => ((await response.json()) as { jobs: { leaseToken: string }[] }).jobs),
        ),
      );
      const jobs = answers.flat();
      assert.equal(jobs.length, 3);
      const acked = await client.post('/v1/leases/ack', { items: jobs.map(({ leaseToken }) => ({ leaseToken })) });
      assert.ok(acked.body.results.every((result: any) => result.outcome === 'OK'));
    }
  } finally {
    await second.stop();
  }
});

test('a lease that waits at the bound of maxInFlight is served as soon as another one ends', async () => {
  await client.put('/v1/queues/one', { maxInFlight: 1 });
  await fill('one', 2);
  const [held] = await lease('one');
  const waiting = lease('one', { wait: '10s' });
  await until('the second lease is parked', async () => {
    const leased = await service.sql(
      'select count(*)::int as n from stint.lease l join stint.queue q on q.id = l.queue_id where q.name = $1',
      ['one'],
    );
    return leased[0].n === 1;
  });
  await client.post('/v1/leases/ack', { items: [{ leaseToken: held.leaseToken }] });
  const began = performance.now();
  assert.equal((await waiting).length, 1);
  assert.ok(performance.now() - began < 700, 'woken by the ack and not by the poll');
});

test('rateLimit bounds the leases started in any period, and lets waiting ones go on at its pace', async () => {
  await client.put('/v1/queues/paced', { rateLimit: { jobs: 5, per: '1s' } });
  await fill('paced', 12);
  const began = performance.now();
  assert.equal((await lease('paced', { maxJobs: 100 })).length, 5);
  let got = 5;
  while (got < 12) got += (await lease('paced', { maxJobs: 100, wait: '5s' })).length;
  const seconds = (performance.now() - began) / 1_000;
  assert.ok(seconds >= 1.2, `12 jobs at 5 a second after a burst of 5 take at least 1.2 s, took ${seconds}`);
  assert.equal(got, 12);
});

test('limits are settings like the others: shown, changed whole, reset', async () => {
  await client.put('/v1/queues/set', { maxInFlight: 7, rateLimit: { jobs: 10, per: '1m' } });
  const shown = await client.get('/v1/queues/set');
  assert.deepEqual([shown.body.maxInFlight, shown.body.rateLimit], [7, { jobs: 10, per: '60s' }]);
  const reset = await client.put('/v1/queues/set', { reset: ['maxInFlight', 'rateLimit'] });
  assert.deepEqual([reset.body.maxInFlight, reset.body.rateLimit], [undefined, undefined]);
});
