import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import {
  assertProblem,
  enqueue,
  get,
  invalid,
  lease,
  leased,
  leaseOne,
  putQueue,
  settleOk,
  tooLarge,
} from '../contract/jobs.js';

const MIB = 1024 * 1024;
let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

/** Enqueues the JSON text as a payload and answers how it stands in a lease, in GetJob and in a listing. */
async function roundTrip(queue: string, payload: string): Promise<string[]> {
  const id = await enqueue(client, queue, `{"payload":${payload}}`);
  const answers = [
    await client.post(`/v1/queues/${queue}/lease`),
    await client.get(`/v1/jobs/${id}`),
    await client.get(`/v1/queues/${queue}/jobs?include=payload`),
  ];
  return answers.map(({ text }) => text);
}

async function assertKept(queue: string, payload: string): Promise<void> {
  for (const text of await roundTrip(queue, payload)) {
    assert.ok(text.includes(`"payload":${payload},`), `${payload.slice(0, 100)} is not in ${text.slice(0, 300)}`);
  }
}

const sendBytes = (bytes: Buffer, headers: Record<string, string> = {}) =>
  client.request('POST', '/v1/queues/raw/jobs', undefined, {
    body: bytes,
    headers: { 'content-type': 'application/json', ...headers },
  });

test('C01: NUL in a payload, as a value and as a key, comes back as it was sent', async () => {
  for (const payload of ['{"a":"x\\u0000y"}', '{"\\u0000":1}', '"\\u0000"', '["\\u0000","\\ud800"]'])
    await assertKept('c01', payload);
});

test('C01: NUL where text is stored is 400 and named', async () => {
  const nul = 'x\u0000y';
  const fields: [object, string][] = [
    [{ kind: nul }, 'kind'],
    [{ headers: { h: nul } }, 'headers.h'],
    [{ headers: { [nul]: 'v' } }, 'headers'],
    [{ idempotencyKey: nul }, 'idempotencyKey'],
    [{ contentType: `text/${nul}` }, 'contentType'],
  ];
  for (const [body, field] of fields) assertProblem(await client.post('/v1/queues/c01/jobs', body), invalid(field));
  assertProblem(await client.post('/v1/queues/c01%00/jobs', {}), invalid('queue'));
  assertProblem(await client.post('/v1/queues/c01/lease', { worker: nul }), invalid('worker', /U\+0000/));
  assertProblem(await client.get(`/v1/queues/c01/jobs?kind=${encodeURIComponent(nul)}`), invalid('kind'));
});

test('C01: in item 37 of a batch of 100 it is kept in the payload, and refused with its index elsewhere', async () => {
  const batch = (item: object) =>
    client.post('/v1/jobs/batch', {
      jobs: Array.from({ length: 100 }, (_, index) => ({ queue: 'c01-batch', ...(index === 37 ? item : {}) })),
    });
  assertProblem(await batch({ headers: { h: '\u0000' } }), invalid('jobs[37].headers.h'));
  assert.deepEqual(await lease(client, 'c01-batch', { maxJobs: 1000 }), []);
  assert.equal((await batch({ payload: '\u0000' })).status, 201);
  assert.equal((await lease(client, 'c01-batch', { maxJobs: 1000 }))[37].payload, '\u0000');
});

test('C01: a result with NUL ends the lease and is kept', async () => {
  const job = await leased(client, 'c01-result');
  await settleOk(client, 'ack', job, { result: { a: 'x\u0000y', '\u0000': 1 } });
  const done = await get(client, job.id);
  assert.deepEqual([done.state, done.result], ['completed', { a: 'x\u0000y', '\u0000': 1 }]);
});

test('C02: whatever the failure report holds, the attempt is counted, and the third nack is the last', async () => {
  const id = await enqueue(client, 'c02', { maxAttempts: 3 });
  const errors = [
    { message: 'boom\u0000', type: '\u0000', detail: { '\u0000': '\ud800' } },
    { message: 'x'.repeat(5 * MIB), detail: 'y'.repeat(MIB) },
    { message: 'lone \ud800 surrogate', type: '\udfff' },
  ];
  for (const [index, error] of errors.entries()) {
    const job = await leaseOne(client, 'c02');
    assert.equal(job.attempt, index + 1);
    await settleOk(client, 'nack', job, { error, delay: '0s' });
  }
  const job = await get(client, id);
  assert.deepEqual([job.state, job.attempt, job.attempts.length], ['dead', 3, 3]);
  assert.equal(job.attempts[0].error.message, 'boom\u0000');
  assert.match(job.attempts[1].error.message, /cut/);
});

test('C02: of a batch of 50 nacks with one bad entry the other 49 are recorded', async () => {
  const jobs = Array.from({ length: 50 }, () => ({ queue: 'c02-batch', maxAttempts: 1 }));
  await client.post('/v1/jobs/batch', { jobs });
  const held = await lease(client, 'c02-batch', { maxJobs: 50 });
  const items = held.map(({ leaseToken }, index) =>
    index === 20 ? { leaseToken, delay: 'never' } : { leaseToken, error: { message: `\u0000\ud800 ${index}` } },
  );
  const { results } = (await client.post('/v1/leases/nack', { items })).body;
  assert.deepEqual(
    results.map(({ outcome }: any) => outcome),
    held.map((_, index) => (index === 20 ? 'INVALID' : 'OK')),
  );
  assert.equal((await client.get('/v1/queues/c02-batch')).body.counts.dead, 49);
});

test('C04: numbers keep their digits, everywhere they are shown', async () => {
  const payload =
    '{"id":9007199254740993,"f":1e400,"z":-0,"d":1.10,"e":1E+2,"long":0.1000000000000000055511151231257827}';
  await assertKept('c04', payload);
});

test('C04: after a retry, a death and a redrive the digits are the same', async () => {
  const payload = '{"id":9007199254740993,"d":1.10}';
  const id = await enqueue(client, 'c04-redrive', `{"payload":${payload}}`);
  await settleOk(client, 'nack', await leaseOne(client, 'c04-redrive'), { delay: '0s' });
  await settleOk(client, 'nack', await leaseOne(client, 'c04-redrive'), { final: true });
  assert.deepEqual((await client.post('/v1/queues/c04-redrive/dead/redrive', { ids: [id] })).body, {
    matched: 1,
    redriven: 1,
  });
  const { text } = await client.post('/v1/queues/c04-redrive/lease');
  assert.ok(text.includes(`"payload":${payload},`), text);
});

test('C05: bare strings, arrays, null, booleans and numbers come back as they were, and absent is not null', async () => {
  for (const payload of ['null', '"text"', '""', '[]', '[1,"a",null]', 'true', 'false', '0', '{}'])
    await assertKept('c05', payload);
  for (const text of await roundTrip('c05-null', 'null')) assert.ok(text.includes('"payload":null'));
  const id = await enqueue(client, 'c05-absent');
  assert.equal('payload' in (await leaseOne(client, 'c05-absent')), false);
  assert.equal('payload' in (await get(client, id)), false);
});

test('C05: the same values as a result', async () => {
  for (const result of [null, 'text', '', [], [1, 'a', null], true, 0]) {
    const job = await leased(client, 'c05-result');
    await settleOk(client, 'ack', job, { result });
    assert.deepEqual((await get(client, job.id)).result, result);
  }
});

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);

test('C07: JSON is taken 512 levels deep, in a payload, a result and an error; deeper is 400', async () => {
  // The body itself is one level, so that a field of it may have one fewer.
  await assertKept('c07', nested(511));
  assertProblem(await client.post('/v1/queues/c07/jobs', `{"payload":${nested(512)}}`), {
    status: 400,
    code: 'INVALID_ARGUMENT',
    says: /512/,
  });
  const job = await leased(client, 'c07-result');
  const ack = (depth: number) =>
    client.post(`/v1/jobs/${job.id}/ack`, `{"leaseToken":"${job.leaseToken}","result":${nested(depth)}}`);
  assertProblem(await ack(600), { status: 400, code: 'INVALID_ARGUMENT', says: /512/ });
  assert.equal((await ack(511)).body.outcome, 'OK');
});

test('C07: hostile nesting, escapes and keys neither kill the service nor hold it up for 100 ms', async () => {
  const other = await service.tenant();
  await putQueue(client, 'c07-hostile', { maxPayloadBytes: 2 * MIB });
  const payloads = [
    '['.repeat(100_000),
    nested(100_000),
    '{"a":'.repeat(50_000) + '1' + '}'.repeat(50_000),
    `"${'\\\\'.repeat(512 * 1024)}"`,
    `{${Array.from({ length: 100_000 }, (_, index) => `"${index}":0`).join(',')}}`,
  ];
  const bodies = payloads.map((payload) => Buffer.from(`{"payload":${payload}}`));
  // The least of three, since the process is shared with the test itself and with whatever else the machine does.
  const longest: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    for (const [index, body] of bodies.entries()) {
      const answer = await client.request('POST', '/v1/queues/c07-hostile/jobs', undefined, {
        body,
        headers: { 'content-type': 'application/json' },
      });
      assert.equal(answer.status, index < 3 ? 400 : 201, answer.text);
      assert.equal((await other.post('/v1/queues/q/jobs', {})).status, 201);
    }
    delay.disable();
    longest.push(delay.max / 1e6);
  }
  assert.ok(Math.min(...longest) < 100, `the event loop was held up for ${longest.join(', ')} ms`);
});

test('C09: a body that is not UTF-8 is refused and never mended', async () => {
  const around = (bytes: readonly number[]): Buffer =>
    Buffer.concat([Buffer.from('{"payload":"'), Buffer.from(bytes), Buffer.from('"}')]);
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xc3]]) {
    assertProblem(await sendBytes(around(bytes)), invalid('body', /UTF-8/));
  }
  assertProblem(await sendBytes(gzipSync('{}')), invalid('body'));
  assertProblem(await sendBytes(Buffer.from('\ufeff{}')), invalid('body'));
  const unsupported = { status: 415, code: 'UNSUPPORTED_MEDIA_TYPE' };
  assertProblem(await sendBytes(gzipSync('{}'), { 'content-encoding': 'gzip' }), unsupported);
  assertProblem(
    await sendBytes(around([0xe4]), { 'content-type': 'application/json; charset=iso-8859-1' }),
    unsupported,
  );
  assert.deepEqual(await lease(client, 'raw'), []);
});

test('C09: non-characters and control escapes are kept, raw control characters are not JSON', async () => {
  for (const payload of ['"\uffff"', '"\\uffff\\ufdd0"', '"\u007f\u0085\u2028"', '"\\u0001\\u001f"', '"\u{1F600}"'])
    await assertKept('c09', payload);
  assertProblem(await client.post('/v1/queues/c09/jobs', '{"payload":"\u0001"}'), invalid('body'));
});

test('C09: 4 kB of random bytes come back equal', async () => {
  const bytes = randomBytes(4_000);
  await enqueue(client, 'c09-bytes', { payloadBase64: bytes.toString('base64') });
  assert.deepEqual(Buffer.from((await leaseOne(client, 'c09-bytes')).payloadBase64, 'base64'), bytes);
});

test('C10: what is accepted at the limit is leasable, also after the limit is lowered', async () => {
  await putQueue(client, 'c10', { maxPayloadBytes: 2 * MIB });
  const text = (bytes: number): string => `{"payload":"${'x'.repeat(bytes - 2)}"}`;
  const ids = [await enqueue(client, 'c10', text(2 * MIB - 1)), await enqueue(client, 'c10', text(2 * MIB))];
  assertProblem(await client.post('/v1/queues/c10/jobs', text(2 * MIB + 1)), tooLarge('payload', /2097152/));
  await putQueue(client, 'c10', { maxPayloadBytes: 1 });
  for (const id of ids) assert.equal((await leaseOne(client, 'c10', { maxJobs: 50 })).id, id);
});

test('C10: small payloads with large headers are cut by bytes as well, and every reply holds a job', async () => {
  const headers = { h: 'v'.repeat(8_000) };
  await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 500 }, () => ({ queue: 'c10-headers', headers })) });
  let seen = 0;
  for (let calls = 0; seen < 500; calls += 1) {
    const { text, body } = await client.post('/v1/queues/c10-headers/lease', { maxJobs: 500 });
    assert.ok(body.jobs.length > 0 && text.length <= 3 * MIB, `${text.length} bytes in call ${calls}`);
    seen += body.jobs.length as number;
  }
  assert.equal(seen, 500);
});

test('C10: jobs that failed with large errors never make a reply too large', async () => {
  const error = { message: 'm'.repeat(4_096), detail: 'd'.repeat(16_000) };
  await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 300 }, () => ({ queue: 'c10-errors' })) });
  const held = await lease(client, 'c10-errors', { maxJobs: 300 });
  for (let from = 0; from < 300; from += 100) {
    const items = held.slice(from, from + 100).map(({ leaseToken }) => ({ leaseToken, error, delay: '0s' }));
    assert.equal((await client.post('/v1/leases/nack', { items })).status, 200);
  }
  const { text, body } = await client.post('/v1/queues/c10-errors/lease', { maxJobs: 300 });
  assert.ok(body.jobs.length > 0);
  assert.ok(text.length <= 3 * MIB, `a reply of ${text.length} bytes`);
});

test('C10: payloads that REST shows in base64 never make a reply too large', async () => {
  const payloadBase64 = randomBytes(190_000).toString('base64');
  for (let at = 0; at < 2; at += 1) {
    const jobs = Array.from({ length: 15 }, () => ({ queue: 'c10-bytes', payloadBase64 }));
    assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
  }
  const { text, body } = await client.post('/v1/queues/c10-bytes/lease', { maxJobs: 30 });
  assert.ok(body.jobs.length > 1);
  assert.ok(text.length <= 3 * MIB, `a reply of ${text.length} bytes`);
});
