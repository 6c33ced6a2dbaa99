import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import {
  assertProblem,
  at,
  enqueue,
  get,
  invalid,
  lease,
  leaseOne,
  NOT_FOUND,
  putQueue,
  rawMember,
  tooLarge,
} from './jobs.js';

const KIB = 1024;
const DAY_MS = 86_400_000;
const V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const post = (fields: object | string, queue = 'q') => client.post(`/v1/queues/${queue}/jobs`, fields);
const batch = (jobs: unknown) => client.post('/v1/jobs/batch', { jobs });
const ahead = (ms: number): string => new Date(Date.now() + ms).toISOString();

test('an enqueue answers 201 with id, state, times and whether it was deduplicated, and nothing else', async () => {
  const made = await post({ kind: 'welcome', payload: { a: 1 } });
  assert.equal(made.status, 201);
  assert.deepEqual(Object.keys(made.body).sort(), ['deduplicated', 'enqueuedAt', 'id', 'runAt', 'state']);
  assert.match(made.body.id, V7);
  assert.match(made.body.enqueuedAt, TIMESTAMP);
  assert.equal(made.body.runAt, made.body.enqueuedAt);
  assert.equal(made.body.state, 'ready');
  assert.equal(made.body.deduplicated, false);
});

test('an enqueue without a body makes a job without kind and payload', async () => {
  const made = await client.post('/v1/queues/bare/jobs');
  assert.equal(made.status, 201, made.text);
  const job = await leaseOne(client, 'bare');
  assert.equal('payload' in job || 'kind' in job || 'payloadBase64' in job, false);
  assert.equal(job.contentType, 'application/json');
  assert.deepEqual(job.headers, {});
  assert.equal(job.priority, 0);
  assert.equal(job.maxAttempts, 5);
});

test('every enqueue field comes back from GetJob as it was given', async () => {
  const fields = {
    kind: 'k',
    payload: [1, { b: null }],
    contentType: 'application/vnd.x+json',
    priority: 7,
    delay: '1h30m',
    maxAttempts: 9,
    retry: { type: 'fixed', delays: ['1m', '5m'], jitter: 0.5 },
    visibilityTimeout: '1m',
    idempotencyKey: 'every-field',
    expiresAt: ahead(DAY_MS),
    headers: {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'a=b',
      'X-Own': 'ü',
    },
  };
  const job = await get(client, await enqueue(client, 'all-fields', fields));
  const { delay, expiresAt, ...same } = fields;
  for (const [name, value] of Object.entries(same)) {
    if (name !== 'retry' && name !== 'visibilityTimeout') assert.deepEqual(job[name], value, name);
  }
  assert.deepEqual(job.retry, { type: 'fixed', delays: ['60s', '300s'], jitter: 0.5 });
  assert.equal(job.visibilityTimeout, '60s');
  assert.equal(at(job.expiresAt), at(expiresAt));
  assert.equal(at(job.runAt) - at(job.enqueuedAt), 5_400_000, delay);
  assert.equal(job.state, 'scheduled');
});

const bounds: { field: string; ok: unknown; over: unknown; says: RegExp }[] = [
  { field: 'kind', ok: 'k'.repeat(128), over: 'k'.repeat(129), says: /128/ },
  { field: 'priority', ok: 1000, over: 1001, says: /1000/ },
  { field: 'priority', ok: -1000, over: -1001, says: /-1000/ },
  { field: 'delay', ok: '366d', over: '31622400001ms', says: /366d/ },
  { field: 'maxAttempts', ok: 1000, over: 1001, says: /1000/ },
  { field: 'maxAttempts', ok: 1, over: 0, says: /1/ },
  { field: 'visibilityTimeout', ok: '12h', over: '43200001ms', says: /12h/ },
  { field: 'visibilityTimeout', ok: '1s', over: '999ms', says: /1s/ },
  { field: 'idempotencyKey', ok: 'ü'.repeat(127) + 'i', over: 'ü'.repeat(128), says: /255 bytes/ },
  { field: 'idempotencyKey', ok: 'i', over: '', says: /1 to 255 bytes/ },
  { field: 'idempotencyKey', ok: 'a b', over: 'a\tb', says: /control/ },
  { field: 'contentType', ok: 'application/json; charset=utf-8', over: 'json', says: /type\/subtype/ },
];

for (const { field, ok, over, says } of bounds) {
  const shown = JSON.stringify(over);
  test(`the bound of ${field}: what is within is taken, ${shown.length > 30 ? 'what is past it' : shown} is refused by name and limit`, async () => {
    assert.equal((await post({ [field]: ok }, 'bounds')).status, 201);
    assertProblem(await post({ [field]: over }, 'bounds'), invalid(field, says));
  });
}

test('runAt is taken up to 366 days ahead', async () => {
  assert.equal((await post({ runAt: ahead(366 * DAY_MS - 5_000) })).status, 201);
  assertProblem(await post({ runAt: ahead(366 * DAY_MS + 5_000) }), invalid('runAt', /366 days/));
});

test('a runAt in the past means now', async () => {
  const made = await post({ runAt: '2001-01-01T00:00:00Z' }, 'past');
  assert.equal(made.status, 201);
  assert.equal(made.body.state, 'ready');
  assert.equal(made.body.runAt, made.body.enqueuedAt);
});

test('delay and runAt exclude each other, and both are named', async () => {
  assertProblem(await post({ delay: '1s', runAt: ahead(1000) }), invalid(['delay', 'runAt']));
});

test('payload and payloadBase64 exclude each other, and both are named', async () => {
  assertProblem(await post({ payload: 1, payloadBase64: 'AAA=' }), invalid(['payload', 'payloadBase64']));
});

test('expiresAt must be after now and after the start, else both fields are named', async () => {
  assertProblem(await post({ expiresAt: ahead(-1000) }), invalid('expiresAt', /after now/));
  assertProblem(await post({ expiresAt: ahead(10_000), delay: '20s' }), invalid(['expiresAt', 'delay']));
  assertProblem(await post({ expiresAt: ahead(10_000), runAt: ahead(20_000) }), invalid(['expiresAt', 'runAt']));
  assert.equal((await post({ expiresAt: ahead(20_000), delay: '10s' }, 'later')).status, 201);
});

test('headers: at most 64 pairs (400) and 8 KiB in all (413)', async () => {
  const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`h${index}`, 'v']));
  assert.equal((await post({ headers: pairs(64) })).status, 201);
  assertProblem(await post({ headers: pairs(65) }), invalid('headers', /64/));
  assert.equal((await post({ headers: { h: 'v'.repeat(8 * KIB - 1) } })).status, 201);
  assertProblem(await post({ headers: { h: 'v'.repeat(8 * KIB) } }), tooLarge('headers', /8192/));
  assertProblem(await post({ headers: { h: 1 } }), invalid('headers.h', /string/));
});

test('a payload of 256 KiB is taken, one byte more is 413, unless the queue takes more', async () => {
  const text = (bytes: number): string => `{"payload":"${'x'.repeat(bytes - 2)}"}`;
  assert.equal((await post(text(256 * KIB), 'large')).status, 201);
  assertProblem(await post(text(256 * KIB + 1), 'large'), tooLarge('payload', /262144/));
  await putQueue(client, 'large', { maxPayloadBytes: 2 * 1024 * KIB });
  assert.equal((await post(text(2 * 1024 * KIB), 'large')).status, 201);
  assertProblem(await post(text(2 * 1024 * KIB + 1), 'large'), tooLarge('payload', /2097152/));
  assertProblem(
    await client.put('/v1/queues/large', { maxPayloadBytes: 2 * 1024 * KIB + 1 }),
    invalid('maxPayloadBytes', /2097152/),
  );
});

test('a payload in bytes is measured in bytes, not in base64', async () => {
  const payloadBase64 = (bytes: number) => ({ payloadBase64: Buffer.alloc(bytes, 1).toString('base64') });
  assert.equal((await post(payloadBase64(256 * KIB), 'large-bytes')).status, 201);
  assertProblem(await post(payloadBase64(256 * KIB + 1), 'large-bytes'), tooLarge('payloadBase64', /262144/));
});

test('a body past 8 MiB is 413 and the client reads the answer', async () => {
  const answer = await client.post('/v1/jobs/batch', ' '.repeat(8 * 1024 * KIB) + '{"jobs":[]}');
  assert.equal(answer.status, 413);
  assert.equal(answer.body.code, 'PAYLOAD_TOO_LARGE');
});

test('unknown fields are named, at any depth; flow control is not known yet', async () => {
  for (const field of [
    'tenant',
    'orderingKey',
    'uniqueKey',
    'concurrencyKey',
    'fairnessKey',
    'Priority',
    '__proto__',
  ]) {
    assertProblem(await post(`{${JSON.stringify(field)}:"x"}`), invalid(field, /not a known field/));
  }
  assertProblem(
    await post({ retry: { type: 'fixed', delays: ['1s'], factor: 2 } }),
    invalid('retry.factor', /not a known field/),
  );
  assertProblem(await post({ queue: 'q' }), invalid('queue', /path/));
});

test('a wrong type is refused by name: null, number for text, fraction, text for number', async () => {
  const wrong: [string, unknown][] = [
    ['kind', null],
    ['kind', 5],
    ['priority', 1.5],
    ['priority', '1'],
    ['delay', 5],
    ['delay', '-1s'],
    ['delay', '1w'],
    ['runAt', 'tomorrow'],
    ['runAt', '2026-02-30T00:00:00Z'],
    ['maxAttempts', 1e300],
    ['headers', []],
    ['payloadBase64', '!!!!'],
    ['retry', 'exponential'],
    ['retry.type', undefined],
  ];
  for (const [field, value] of wrong) {
    const fields = field === 'retry.type' ? { retry: { type: 'linear' } } : { [field]: value };
    assertProblem(await post(fields), invalid(field));
  }
});

test('retry policies have bounds of their own', async () => {
  const good = [
    { type: 'exponential' },
    { type: 'exponential', initial: '0s', factor: 1, max: '0s', jitter: 0 },
    { type: 'exponential', initial: '366d', factor: 100, max: '366d', jitter: 1 },
    { type: 'fixed', delays: Array.from({ length: 100 }, () => '366d') },
  ];
  for (const retry of good) assert.equal((await post({ retry }, 'retries')).status, 201, JSON.stringify(retry));
  assertProblem(await post({ retry: { type: 'fixed', delays: [] } }), invalid('retry.delays', /1/));
  assertProblem(
    await post({ retry: { type: 'fixed', delays: Array.from({ length: 101 }, () => '1s') } }),
    invalid('retry.delays', /100/),
  );
  assertProblem(await post({ retry: { type: 'fixed', delays: ['1s', '367d'] } }), invalid('retry.delays[1]', /366d/));
  assertProblem(await post({ retry: { type: 'exponential', jitter: 1.1 } }), invalid('retry.jitter', /1/));
  assertProblem(await post({ retry: { type: 'exponential', factor: 0.9 } }), invalid('retry.factor', /1/));
});

test('payloads of other content types travel as base64 and come back to the byte', async () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
  await enqueue(client, 'bytes', { payloadBase64: bytes.toString('base64') });
  await enqueue(client, 'bytes', { payloadBase64: bytes.toString('base64'), contentType: 'image/png' });
  const jobs = await lease(client, 'bytes', { maxJobs: 2 });
  assert.deepEqual(
    jobs.map(({ contentType }) => contentType),
    ['application/octet-stream', 'image/png'],
  );
  for (const job of jobs) {
    assert.equal('payload' in job, false);
    assert.deepEqual(Buffer.from(job.payloadBase64, 'base64'), bytes);
  }
});

test('a JSON content type given in bytes must hold JSON and is shown as payload', async () => {
  const base64 = (text: string | Buffer): string => Buffer.from(text as string).toString('base64');
  await enqueue(client, 'json-bytes', { payloadBase64: base64('{"b": 1.0}'), contentType: 'application/problem+json' });
  const answer = await client.post('/v1/queues/json-bytes/lease');
  assert.ok(answer.text.includes('"payload":{"b": 1.0}'), answer.text);
  for (const bad of ['{', '', '{"a":1} x', Buffer.from([0x22, 0xff, 0x22])]) {
    assertProblem(
      await post({ payloadBase64: base64(bad), contentType: 'application/json; charset=utf-8' }),
      invalid('payloadBase64', /JSON/),
    );
  }
  assertProblem(await post({ payload: 1, contentType: 'text/plain' }), invalid('payload', /payloadBase64/));
});

test('a batch enqueues into any queues, in order, and answers 201', async () => {
  const answer = await batch([
    { queue: 'b1', payload: 1 },
    { queue: 'b2', payload: 2 },
    { queue: 'b1', payload: 3, delay: '1h' },
    { queue: 'b1', payload: 4 },
  ]);
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual(
    answer.body.jobs.map(({ state }: any) => state),
    ['ready', 'ready', 'scheduled', 'ready'],
  );
  const jobs = await lease(client, 'b1', { maxJobs: 10 });
  assert.deepEqual(
    jobs.map(({ payload }) => payload),
    [1, 4],
  );
});

test('a fault in one item refuses the whole batch and names it', async () => {
  const good = { queue: 'faulty', payload: 1 };
  const faults: [object, string][] = [
    [{ queue: 'faulty', priority: 1001 }, 'jobs[1].priority'],
    [{ queue: 'no/name' }, 'jobs[1].queue'],
    [{ payload: 1 }, 'jobs[1].queue'],
    [{ queue: 'faulty', colour: 'red' }, 'jobs[1].colour'],
    [{ queue: 'faulty', runAt: ahead(400 * DAY_MS) }, 'jobs[1].runAt'],
    [{ queue: 'faulty', expiresAt: ahead(-1_000) }, 'jobs[1].expiresAt'],
    [{ queue: 'faulty', delay: 'soon' }, 'jobs[1].delay'],
    [{ queue: 'faulty', headers: { h: 5 } }, 'jobs[1].headers.h'],
  ];
  for (const [fault, field] of faults) assertProblem(await batch([good, fault, good]), invalid(field));
  assertProblem(
    await batch([good, { ...good, delay: '1s', runAt: ahead(1) }]),
    invalid(['jobs[1].delay', 'jobs[1].runAt']),
  );
  assertProblem(
    await batch([good, { ...good, payload: 'x'.repeat(256 * KIB) }]),
    tooLarge('jobs[1].payload', /262144/),
  );
  assert.deepEqual(await lease(client, 'faulty', { maxJobs: 10 }), []);
});

test('a refused batch does not touch what others enqueue at the same time', async () => {
  const answers = await Promise.all([
    ...Array.from({ length: 10 }, () => batch([{ queue: 'beside', payload: 1 }])),
    ...Array.from({ length: 10 }, () =>
      batch([{ queue: 'beside' }, { queue: 'beside', headers: { h: 'v'.repeat(9 * KIB) } }]),
    ),
  ]);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [...Array.from({ length: 10 }, () => 201), ...Array.from({ length: 10 }, () => 413)],
  );
  assert.equal((await lease(client, 'beside', { maxJobs: 100 })).length, 10);
});

test('a batch holds 1 to 1,000 jobs', async () => {
  const many = (count: number) => Array.from({ length: count }, () => ({ queue: 'thousand' }));
  const answer = await batch(many(1000));
  assert.equal(answer.status, 201);
  assert.equal(new Set(answer.body.jobs.map(({ id }: any) => id)).size, 1000);
  assertProblem(await batch(many(1001)), invalid('jobs', /1000/));
  assertProblem(await batch([]), invalid('jobs', /1/));
  assertProblem(await client.post('/v1/jobs/batch', {}), invalid('jobs', /required/));
});

test('queue names: 1 to 80 of [A-Za-z0-9._-], the first a letter or digit', async () => {
  for (const name of ['a', '0', 'A.b_c-d', 'q'.repeat(80)]) assert.equal((await post({}, name)).status, 201, name);
  for (const name of ['q'.repeat(81), '-a', '.a', '_a', 'a%20b', '%C3%BC', 'a%2Fb'])
    assertProblem(await post({}, name), invalid('queue'));
});

test('with autoCreateQueues false an unknown queue is 404 and names the field', async () => {
  const strict = await service.tenant({ autoCreateQueues: false });
  assertProblem(await strict.post('/v1/queues/none/jobs', {}), { ...NOT_FOUND, fields: ['queue'] });
  await putQueue(strict, 'some');
  const mixed = await strict.post('/v1/jobs/batch', { jobs: [{ queue: 'some' }, { queue: 'none' }] });
  assertProblem(mixed, { ...NOT_FOUND, fields: ['jobs[1].queue'] });
  assert.deepEqual(await lease(strict, 'some'), []);
  assert.equal((await strict.post('/v1/queues/some/jobs', {})).status, 201);
});

test('enqueue is 429 BACKLOG_FULL with Retry-After past maxBacklog; a batch counts as a whole', async () => {
  await putQueue(client, 'full', { maxBacklog: 2 });
  await enqueue(client, 'full');
  const full = { status: 429, code: 'BACKLOG_FULL' };
  assertProblem(await batch([{ queue: 'full' }, { queue: 'full' }]), full);
  await enqueue(client, 'full', { delay: '1h' });
  const refused = await post({}, 'full');
  assertProblem(refused, full);
  assert.ok(Number(refused.headers.get('retry-after')) >= 1);
  await leaseOne(client, 'full');
  await enqueue(client, 'full');
});

test('enqueue needs the scope enqueue, and a credential', async () => {
  const worker = await service.tenant({ scopes: ['work', 'read', 'manage'] });
  assertProblem(await worker.post('/v1/queues/q/jobs', {}), { status: 403, code: 'PERMISSION_DENIED' });
  const none = await client.request('POST', '/v1/queues/q/jobs', {}, { headers: { authorization: 'Bearer nonsense' } });
  assertProblem(none, { status: 401, code: 'UNAUTHENTICATED' });
  assertProblem(await service.admin.post('/v1/queues/q/jobs', {}), { status: 403, code: 'PERMISSION_DENIED' });
});

test('a body that is not JSON is 400, another media type 415', async () => {
  assertProblem(await post('{'), { status: 400, code: 'INVALID_ARGUMENT' });
  assertProblem(await post('[]'), invalid('body', /object/));
  assertProblem(await post('{"kind":"a","kind":"b"}'), invalid('kind', /more than once/));
  const text = await client.post('/v1/queues/q/jobs', '{}', { headers: { 'content-type': 'text/plain' } });
  assertProblem(text, { status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' });
});

test('white space around a payload may go, its bytes stay', async () => {
  const payload = '{ "b":1 ,\n "a" : [ 1.0 ] }';
  const id = await enqueue(client, 'spaces', `{"payload"  :  ${payload}  }`);
  const { text } = await client.get(`/v1/jobs/${id}`);
  assert.equal(rawMember(text, 'payload', payload.length), payload);
});
