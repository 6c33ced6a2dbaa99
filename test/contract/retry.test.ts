import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  at,
  enqueue,
  get,
  invalid,
  leased,
  leaseOne,
  putQueue,
  runOut,
  settle,
  settleOk,
} from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

/** Nacks the job's attempts one after the other and answers the delays, in milliseconds, that the service chose. */
async function delays(queue: string, fields: object, attempts: number): Promise<number[]> {
  const id = await enqueue(client, queue, { maxAttempts: 1000, ...fields });
  const chosen: number[] = [];
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const job = await leaseOne(client, queue);
    assert.deepEqual([job.id, job.attempt], [id, attempt]);
    await settleOk(client, 'nack', job);
    chosen.push(await lastDelay(id));
    await client.patch(`/v1/jobs/${id}`, { delay: '0s' });
  }
  await client.post(`/v1/jobs/${id}/cancel`);
  return chosen;
}

/** From the end of the last attempt to the next one's time; 0 when the job is ready at once. */
async function lastDelay(id: string): Promise<number> {
  const job = await get(client, id);
  if (job.state === 'ready') return 0;
  assert.equal(job.state, 'scheduled');
  const [row] = await service.sql(
    `select (extract(epoch from s.due_at - a.ended_at) * 1000)::float8 as ms
     from stint.scheduled s join stint.attempt a on a.job_id = s.job_id and a.epoch = s.epoch where s.job_id = $1`,
    [id],
  );
  return row.ms as number;
}

function assertWithin(actual: readonly number[], least: readonly number[], jitter: number): void {
  assert.equal(actual.length, least.length);
  for (const [index, delay] of actual.entries()) {
    const base = least[index]!;
    assert.ok(
      delay >= base && delay <= base * (1 + jitter) + 0.001,
      `delay ${index + 1}: ${delay} ms, from ${base} ms`,
    );
  }
}

test('the default policy: 10s, doubled with each attempt, at most 1h, lengthened by up to a fifth', async () => {
  const chosen = await delays('default', {}, 10);
  assertWithin(
    chosen,
    [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600].map((seconds) => seconds * 1000),
    0.2,
  );
});

test('an exponential policy of the job wins over the queue’s, and what it leaves out is at its default', async () => {
  await putQueue(client, 'exponential', { retry: { type: 'fixed', delays: ['7s'] } });
  assertWithin(await delays('exponential', {}, 2), [7_000, 7_000], 0);
  assertWithin(
    await delays('exponential', { retry: { type: 'exponential', initial: '1s' } }, 3),
    [1_000, 2_000, 4_000],
    0.2,
  );
  const own = { type: 'exponential', initial: '100ms', factor: 3, max: '1s', jitter: 0 };
  assertWithin(await delays('exponential', { retry: own }, 4), [100, 300, 900, 1_000], 0);
  assertWithin(await delays('exponential', { retry: { type: 'exponential' } }, 1), [10_000], 0.2);
});

test('a fixed policy gives one delay after the other, and the last repeats', async () => {
  const retry = { type: 'fixed', delays: ['1m', '0s', '30m'] };
  assertWithin(await delays('fixed', { retry }, 5), [60_000, 0, 1_800_000, 1_800_000, 1_800_000], 0);
});

test('a fixed policy may have jitter, which only lengthens', async () => {
  assertWithin(
    await delays('fixed-jitter', { retry: { type: 'fixed', delays: ['10s'], jitter: 1 } }, 6),
    Array(6).fill(10_000),
    1,
  );
});

test('"0s" stays 0: the job is ready at once', async () => {
  const exponential = { type: 'exponential', initial: '0s', factor: 100, max: '1h', jitter: 1 };
  assert.deepEqual(await delays('zero', { retry: exponential }, 3), [0, 0, 0]);
  assert.deepEqual(await delays('zero-fixed', { retry: { type: 'fixed', delays: ['0s'], jitter: 1 } }, 2), [0, 0]);
});

test('max is never passed but for the jitter, even when it is below initial', async () => {
  assertWithin(
    await delays('low-max', { retry: { type: 'exponential', initial: '1h', max: '1s', jitter: 0 } }, 2),
    [1_000, 1_000],
    0,
  );
});

test('large factors and attempts do not overflow', async () => {
  const retry = { type: 'exponential', initial: '1ms', factor: 100, max: '366d', jitter: 1 };
  const job = await leased(client, 'overflow', { retry, maxAttempts: 1000 });
  await service.sql('update stint.lease set attempt = 999 where job_id = $1', [job.id]);
  await settleOk(client, 'nack', job);
  assertWithin([await lastDelay(job.id)], [366 * 86_400_000], 1);
});

test('nack.delay replaces the policy’s as it is, without jitter: 0s to 366d', async () => {
  for (const [delay, ms] of [
    ['0s', 0],
    ['1500ms', 1_500],
    ['366d', 366 * 86_400_000],
  ] as const) {
    const queue = `nack-delay-${delay}`;
    const job = await leased(client, queue);
    await settleOk(client, 'nack', job, { delay });
    assertWithin([await lastDelay(job.id)], [ms], 0);
  }
  const job = await leased(client, 'nack-delay');
  assertProblem(await settle(client, 'nack', job, { delay: '31622400001ms' }), invalid('delay', /366d/));
});

test('a job whose retry is due is leased again, not earlier', async () => {
  const job = await leased(client, 'due');
  await settleOk(client, 'nack', job, { delay: '300ms' });
  const dueAt = at((await get(client, job.id)).runAt);
  const again = await leaseOne(client, 'due', { visibilityTimeout: '10s' });
  assert.equal(again.attempt, 2);
  assert.ok(at(again.leaseExpiresAt) - 10_000 >= dueAt);
});

test('after maxAttempts failed attempts the job is dead, with the last error and its history', async () => {
  const id = await enqueue(client, 'spent', { maxAttempts: 3 });
  for (const message of ['one', 'two', 'three']) {
    await settleOk(client, 'nack', await leaseOne(client, 'spent'), { delay: '0s', error: { message } });
  }
  const job = await get(client, id);
  assert.deepEqual([job.state, job.deadReason, job.attempt], ['dead', 'attempts_spent', 3]);
  assert.deepEqual(job.lastError, { message: 'three', attempt: 3 });
  assert.equal(typeof job.finishedAt, 'string');
  assert.deepEqual(
    job.attempts.map(({ attempt, epoch, outcome, error }: any) => [attempt, epoch, outcome, error.message]),
    [
      [1, 1, 'NACKED', 'one'],
      [2, 2, 'NACKED', 'two'],
      [3, 3, 'NACKED', 'three'],
    ],
  );
});

test('maxAttempts is read from the queue when it is used', async () => {
  const job = await leased(client, 'lowered', { kind: 'k' });
  await putQueue(client, 'lowered', { maxAttempts: 1 });
  await settleOk(client, 'nack', job, { delay: '0s' });
  assert.equal((await get(client, job.id)).state, 'dead');
});

test('a final nack is dead at once, whatever attempts and delay are left', async () => {
  const job = await leased(client, 'final');
  await settleOk(client, 'nack', job, { final: true, delay: '1h', error: { message: 'never' } });
  const dead = await get(client, job.id);
  assert.deepEqual([dead.state, dead.deadReason, dead.lastError.message], ['dead', 'final', 'never']);
});

test('an expired lease counts as a failed attempt: ready again at once, dead past maxAttempts', async () => {
  const job = await leased(client, 'expired', { maxAttempts: 2 });
  await runOut(service, [job.id]);
  const second = await leaseOne(client, 'expired');
  assert.deepEqual([second.id, second.attempt, second.leaseEpoch], [job.id, 2, 2]);
  assert.deepEqual(second.lastError, { message: second.lastError.message, type: 'lease_expired', attempt: 1 });
  await runOut(service, [job.id]);
  const dead = await until('it to be dead', async () => {
    const now = await get(client, job.id);
    return now.state === 'dead' ? now : undefined;
  });
  assert.deepEqual([dead!.deadReason, dead!.lastError.type, dead!.attempt], ['attempts_spent', 'lease_expired', 2]);
});

test('an error has message, type and detail; the detail comes back to the byte', async () => {
  const detail = '{"b":1.0,"a":9007199254740993,"z":"\\u0000"}';
  const job = await leased(client, 'detail');
  const body = `{"leaseToken":"${job.leaseToken}","delay":"0s","error":{"message":"m","type":"t","detail":${detail}}}`;
  assert.equal((await client.post(`/v1/jobs/${job.id}/nack`, body)).status, 200);
  const got = await client.get(`/v1/jobs/${job.id}`);
  assert.ok(got.text.includes(`"lastError":{"message":"m","type":"t","detail":${detail},"attempt":1}`), got.text);
  const again = await client.post('/v1/queues/detail/lease');
  assert.ok(again.text.includes(`"detail":${detail}`), again.text);
});

test('an error that is too long is cut with a marker: message 4 KiB, type 256 B, detail 16 KiB', async () => {
  const job = await leased(client, 'long');
  const error = { message: 'ü'.repeat(5_000), type: 't'.repeat(300), detail: { text: 'd'.repeat(17_000) } };
  await settleOk(client, 'nack', job, { error });
  const { lastError } = await get(client, job.id);
  for (const [name, most] of [
    ['message', 4 * 1024],
    ['type', 256],
    ['detail', 16 * 1024],
  ] as const) {
    assert.equal(typeof lastError[name], 'string');
    assert.ok(Buffer.byteLength(lastError[name]) <= most, `${name}: ${Buffer.byteLength(lastError[name])} bytes`);
    assert.ok(Buffer.byteLength(lastError[name]) > most - 32, name);
    assert.match(lastError[name], /cut/);
    assert.doesNotMatch(lastError[name], /\ufffd/);
  }
});

test('an error at the bound is not cut', async () => {
  const job = await leased(client, 'exact');
  const error = { message: 'm'.repeat(4 * 1024), type: 't'.repeat(256), detail: 'd'.repeat(16 * 1024 - 2) };
  await settleOk(client, 'nack', job, { error });
  assert.deepEqual((await get(client, job.id)).lastError, { ...error, attempt: 1 });
});

test('a nack never fails for its error, whatever it is', async () => {
  for (const error of [
    'text',
    5,
    null,
    [],
    {},
    { message: 5 },
    { type: 'only' },
    { message: null, other: { x: 1 } },
    true,
  ]) {
    const job = await leased(client, 'any-error', { maxAttempts: 1 });
    await settleOk(client, 'nack', job, { error });
    const dead = await get(client, job.id);
    assert.equal(dead.state, 'dead', JSON.stringify(error));
    assert.equal(typeof dead.lastError.message, 'string', JSON.stringify(error));
  }
  const job = await leased(client, 'no-error', { maxAttempts: 1 });
  await settleOk(client, 'nack', job);
  assert.equal((await get(client, job.id)).state, 'dead');
});
