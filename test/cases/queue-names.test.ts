import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import { assertProblem, enqueue, invalid, lease, leaseOne, putQueue } from '../contract/jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

test('C12: names that differ only past 63 bytes, in case or in punctuation are distinct queues, usable everywhere', async () => {
  const stem = 'n'.repeat(63);
  const names = [
    `${stem}a`,
    `${stem}b`,
    `${stem}${'c'.repeat(17)}`,
    'Pair',
    'pair',
    'x',
    '1',
    'a.b',
    'a-b',
    'a_b',
    'constructor',
    'toString',
    'a..b',
    'x--',
  ];
  for (const [index, name] of names.entries()) {
    await putQueue(client, name, { maxAttempts: index + 1 });
    await enqueue(client, name, { payload: name });
  }
  for (const [index, name] of names.entries()) {
    const queue = (await client.get(`/v1/queues/${name}`)).body;
    assert.deepEqual([queue.name, queue.maxAttempts, queue.counts.ready], [name, index + 1, 1]);
    assert.equal((await client.get(`/v1/queues/${name}/jobs`)).body.jobs.length, 1);
    assert.equal((await client.post(`/v1/queues/${name}/pause`)).status, 200);
    assert.deepEqual(await lease(client, name), []);
    assert.equal((await client.post(`/v1/queues/${name}/resume`)).status, 200);
    assert.equal((await leaseOne(client, name)).payload, name);
    assert.equal((await client.get(`/v1/queues/${name}/stats`)).body.counts.leased, 1);
  }
  const listed = (await client.get('/v1/queues?limit=1000')).body.queues.map(({ name }: any) => name);
  for (const name of names) assert.ok(listed.includes(name), name);
  const rendered = await fetch(`${service.base}/metrics`);
  assert.equal(rendered.status, 200);
});

test('C12: other names are 400 in every way to name a queue', async () => {
  const names = [
    'q'.repeat(81),
    'q'.repeat(255),
    'q'.repeat(256),
    'a b',
    'a ',
    "a'b",
    'a"b',
    'a;--',
    'é',
    'e\u0301',
    'a/b',
    'a%b',
    'a\u0000',
    '.',
    '-a',
    '_a',
    '',
  ];
  for (const name of names) {
    const encoded = encodeURIComponent(name).replace(/^\.$/, '%2E');
    assertProblem(await client.post('/v1/jobs/batch', { jobs: [{ queue: name }] }), invalid('jobs[0].queue'));
    assertProblem(await client.post('/v1/lease', { queues: [{ name }] }), invalid('queues[0].name'));
    if (name === '' || name === '.') continue;
    assertProblem(await client.post(`/v1/queues/${encoded}/jobs`, {}), invalid('queue'));
    assertProblem(await client.put(`/v1/queues/${encoded}`, {}), invalid('queue'));
    assertProblem(await client.get(`/v1/queues/${encoded}`), invalid('queue'));
  }
});

test('C12: a job in a queue of the longest name wakes whoever waits for it', async () => {
  const name = 'w'.repeat(80);
  await putQueue(client, name);
  const waiting = leaseOne(client, name, { wait: '10s' });
  const id = await enqueue(client, name);
  assert.equal((await waiting).id, id);
});
