import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, enqueue, get, invalid, lease, leaseOne, putQueue, settleOk } from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const REUSED = { status: 409, code: 'IDEMPOTENCY_KEY_REUSED' };

const post = (queue: string, idempotencyKey: string, fields: object = {}, as = client): Promise<Answer> =>
  as.post(`/v1/queues/${queue}/jobs`, { idempotencyKey, ...fields });

/** Moves the end of a key's window into the past. */
const lapse = (key: string) =>
  service.sql(`update stint.idempotency set expires_at = clock_timestamp() - interval '1 second' where key = $1`, [
    key,
  ]);

test('the same key and fingerprint again answers the first job with 200 and deduplicated, and makes no second one', async () => {
  const first = await post('same', 'k', { kind: 'a', payload: { x: 1 } });
  assert.equal(first.status, 201);
  assert.equal(first.body.deduplicated, false);
  const again = await post('same', 'k', { kind: 'a', payload: { x: 1 }, priority: 5, headers: { other: 'yes' } });
  assert.equal(again.status, 200);
  assert.deepEqual(again.body, { ...first.body, deduplicated: true });
  assert.equal((await lease(client, 'same', { maxJobs: 10 })).length, 1);
});

test('another kind, content type or payload under the key is 409 and names the field', async () => {
  await post('reused', 'k', { kind: 'a', payload: { x: 1 } });
  const others = [
    { kind: 'b', payload: { x: 1 } },
    { payload: { x: 1 } },
    { kind: 'a', payload: { x: 2 } },
    { kind: 'a', payload: { x: 1.0 }, contentType: 'application/vnd.x+json' },
    { kind: 'a' },
    { kind: 'a', payload: null },
  ];
  for (const other of others)
    assertProblem(await post('reused', 'k', other), { ...REUSED, fields: ['idempotencyKey'] });
});

test('the fingerprint is of bytes: another order of keys is another payload', async () => {
  await enqueue(client, 'bytes', '{"idempotencyKey":"k","payload":{"a":1,"b":2}}');
  assertProblem(await client.post('/v1/queues/bytes/jobs', '{"idempotencyKey":"k","payload":{"b":2,"a":1}}'), REUSED);
});

test('the answer has the first job’s present state: leased, completed, dead, then gone', async () => {
  const key = 'states';
  const state = async () => (await post('states', key)).body.state as string;
  assert.equal(await state(), 'ready');
  const job = await leaseOne(client, 'states');
  assert.equal(await state(), 'leased');
  await settleOk(client, 'ack', job);
  assert.equal(await state(), 'completed');
  await service.sql('delete from stint.finished where job_id = $1', [job.id]);
  await service.sql('delete from stint.job where id = $1', [job.id]);
  const gone = await post('states', key);
  assert.equal(gone.status, 200);
  assert.equal(gone.body.state, 'gone');
  assert.equal(gone.body.id, job.id);
});

test('keys are scoped to tenant and queue', async () => {
  const other = await service.tenant();
  const answers = [
    await post('scope-a', 'k', { payload: 1 }),
    await post('scope-b', 'k', { payload: 2 }),
    await post('scope-a', 'k', { payload: 3 }, other),
  ];
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201],
  );
  assert.equal(new Set(answers.map(({ body }) => body.id)).size, 3);
});

test('the header Idempotency-Key is the key; both are taken when they agree and refused when they differ', async () => {
  const withHeader = (header: string, body: object = {}) =>
    client.post('/v1/queues/header/jobs', body, { headers: { 'idempotency-key': header } });
  const first = await withHeader('h');
  assert.equal(first.status, 201);
  assert.equal((await post('header', 'h')).body.id, first.body.id);
  assert.equal((await withHeader('h', { idempotencyKey: 'h' })).body.id, first.body.id);
  assertProblem(await withHeader('h', { idempotencyKey: 'other' }), invalid(['idempotencyKey', 'idempotency-key']));
  assertProblem(await withHeader('x'.repeat(256)), invalid('idempotencyKey', /255 bytes/));
});

test('a key counts for the queue’s window from the first enqueue, and then it is free', async () => {
  await putQueue(client, 'window', { idempotencyWindow: '1h' });
  const first = await post('window', 'window-key');
  const [row] = await service.sql(
    `select (extract(epoch from i.expires_at - j.created_at) * 1000)::float8 as ms
     from stint.idempotency i join stint.job j on j.id = i.job_id where i.key = 'window-key'`,
  );
  assert.ok(Math.abs(row.ms - 3_600_000) < 1000, String(row.ms));
  await settleOk(client, 'ack', await leaseOne(client, 'window'));
  assert.equal((await post('window', 'window-key')).body.id, first.body.id);
  await lapse('window-key');
  const next = await post('window', 'window-key', { payload: 'another fingerprint' });
  assert.equal(next.status, 201);
  assert.notEqual(next.body.id, first.body.id);
});

test('a key never lapses while its job is unfinished: ready, scheduled, leased', async () => {
  const first = await post('unfinished', 'unfinished-key');
  const holds = async (state: string) => {
    await lapse('unfinished-key');
    const again = await post('unfinished', 'unfinished-key');
    assert.deepEqual([again.status, again.body.id, again.body.state], [200, first.body.id, state]);
  };
  await holds('ready');
  const job = await leaseOne(client, 'unfinished');
  await holds('leased');
  await settleOk(client, 'nack', job, { delay: '1h' });
  await holds('scheduled');
  assert.equal((await client.post(`/v1/jobs/${first.body.id}/cancel`)).status, 200);
  await lapse('unfinished-key');
  assert.equal((await post('unfinished', 'unfinished-key')).status, 201);
});

test('a call that failed does not burn the key', async () => {
  assertProblem(await post('burn', 'k', { priority: 5000 }), invalid('priority'));
  const failedBatch = await client.post('/v1/jobs/batch', {
    jobs: [
      { queue: 'burn', idempotencyKey: 'k', payload: 1 },
      { queue: 'burn', kind: 'x'.repeat(129) },
    ],
  });
  assertProblem(failedBatch, invalid('jobs[1].kind'));
  await putQueue(client, 'burn', { maxBacklog: 1 });
  await enqueue(client, 'burn');
  assertProblem(await post('burn', 'k', { payload: 'first' }), { status: 429, code: 'BACKLOG_FULL' });
  await putQueue(client, 'burn', { reset: ['maxBacklog'] });
  assert.equal((await post('burn', 'k', { payload: 'second' })).status, 201);
});

test('in a batch: 201 while one job is new, 200 when all were deduplicated; a repeated key in it makes one job', async () => {
  const item = (idempotencyKey: string, payload: unknown = 0) => ({ queue: 'batch', idempotencyKey, payload });
  const first = await client.post('/v1/jobs/batch', { jobs: [item('a'), item('b'), item('a')] });
  assert.equal(first.status, 201);
  assert.deepEqual(
    first.body.jobs.map(({ deduplicated }: any) => deduplicated),
    [false, false, true],
  );
  assert.equal(first.body.jobs[0].id, first.body.jobs[2].id);
  const mixed = await client.post('/v1/jobs/batch', { jobs: [item('a'), item('c'), { queue: 'batch' }] });
  assert.equal(mixed.status, 201);
  const all = await client.post('/v1/jobs/batch', { jobs: [item('c'), item('b')] });
  assert.equal(all.status, 200);
  assert.equal((await lease(client, 'batch', { maxJobs: 100 })).length, 4);
});

test('a batch in which one key is reused with another payload is refused whole and names the item', async () => {
  const item = (idempotencyKey: string, payload: unknown) => ({ queue: 'whole', idempotencyKey, payload });
  await client.post('/v1/jobs/batch', { jobs: [item('a', 1)] });
  const jobs = [item('new', 1), { queue: 'whole', payload: 'unkeyed' }, item('a', 2)];
  assertProblem(await client.post('/v1/jobs/batch', { jobs }), { ...REUSED, fields: ['jobs[2].idempotencyKey'] });
  const clash = [item('x', 1), item('x', 2)];
  assertProblem(await client.post('/v1/jobs/batch', { jobs: clash }), {
    ...REUSED,
    fields: ['jobs[1].idempotencyKey'],
  });
  assert.equal((await lease(client, 'whole', { maxJobs: 100 })).length, 1);
  assert.equal((await post('whole', 'new', { payload: 'unburnt' })).status, 201);
});

test('a batch of one names its item as a batch does', async () => {
  await post('single', 'k', { payload: 1 });
  const answer = await client.post('/v1/jobs/batch', { jobs: [{ queue: 'single', idempotencyKey: 'k', payload: 2 }] });
  assertProblem(answer, { ...REUSED, fields: ['jobs[0].idempotencyKey'] });
});

test('ListJobs finds the job of a key', async () => {
  const id = await enqueue(client, 'find', { idempotencyKey: 'find me/ü' });
  await enqueue(client, 'find');
  const found = await client.get(`/v1/queues/find/jobs?idempotencyKey=${encodeURIComponent('find me/ü')}`);
  assert.deepEqual(
    found.body.jobs.map((job: any) => job.id),
    [id],
  );
  assert.equal((await get(client, id)).idempotencyKey, 'find me/ü');
});

test('many callers with one key at once, on two instances: one job, and everybody is given its id', async () => {
  const other = await service.another();
  try {
    const clients = [client, clientFor(other.base, client.key)];
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) => post('race', 'k', { payload: 1 }, clients[index % 2])),
    );
    assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
    assert.equal(answers.filter(({ status }) => status === 201).length, 1);
    assert.equal((await lease(client, 'race', { maxJobs: 100 })).length, 1);
  } finally {
    await other.stop();
  }
});

test('a purge takes the keys along', async () => {
  const first = await post('purged', 'k', { payload: 1 });
  const purge = await client.post('/v1/queues/purged/purge');
  assert.equal(purge.status, 202, purge.text);
  const next = await until('the key to be free', async () => {
    const answer = await post('purged', 'k', { payload: 2 });
    return answer.status === 201 ? answer : undefined;
  });
  assert.notEqual(next!.body.id, first.body.id);
});
