import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import {
  age,
  assertProblem,
  at,
  get,
  invalid,
  LEASE_LOST,
  leased,
  leaseOne,
  milliseconds,
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

/** What is left of a lease must be this, give or take what the call took. */
function assertLeft(remaining: string, expected: number): void {
  const left = milliseconds(remaining);
  assert.ok(left <= expected && left > expected - 2_000, `${left} ms left, not ${expected}`);
}

test('a heartbeat answers outcome, end, time left and whether a cancel is asked for', async () => {
  const job = await leased(client, 'shape');
  const beat = await settleOk(client, 'heartbeat', job);
  assert.deepEqual(Object.keys(beat).sort(), ['cancelRequested', 'leaseExpiresAt', 'outcome', 'remaining']);
  assert.equal(beat.cancelRequested, false);
  assertLeft(beat.remaining, 30_000);
  assert.equal((await get(client, job.id)).leaseExpiresAt, beat.leaseExpiresAt);
});

test('a heartbeat extends from now, by the lease’s own duration', async () => {
  const job = await leased(client, 'extends', {}, { visibilityTimeout: '20s' });
  await age(service, [job.id], 15);
  const beat = await settleOk(client, 'heartbeat', job);
  assertLeft(beat.remaining, 20_000);
  assert.ok(Math.abs(at(beat.leaseExpiresAt) - Date.now() - 20_000) < 2_000);
});

test('a heartbeat may make the lease longer or shorter, and the next one keeps that duration', async () => {
  const job = await leased(client, 'longer');
  assertLeft((await settleOk(client, 'heartbeat', job, { visibilityTimeout: '1h' })).remaining, 3_600_000);
  assertLeft((await settleOk(client, 'heartbeat', job)).remaining, 3_600_000);
  assertLeft((await settleOk(client, 'heartbeat', job, { visibilityTimeout: '5s' })).remaining, 5_000);
  assertLeft((await settleOk(client, 'heartbeat', job)).remaining, 5_000);
});

test('the bounds of a heartbeat: visibilityTimeout 1s to 12h, progress 4 KiB of JSON', async () => {
  const job = await leased(client, 'bounds');
  for (const visibilityTimeout of ['12h', '1s']) await settleOk(client, 'heartbeat', job, { visibilityTimeout });
  await settleOk(client, 'heartbeat', job, { visibilityTimeout: '30s' });
  assertProblem(
    await settle(client, 'heartbeat', job, { visibilityTimeout: '43200001ms' }),
    invalid('visibilityTimeout', /12h/),
  );
  assertProblem(
    await settle(client, 'heartbeat', job, { visibilityTimeout: '999ms' }),
    invalid('visibilityTimeout', /1s/),
  );
  await settleOk(client, 'heartbeat', job, { progress: 'ü'.repeat(2047) });
  assertProblem(await settle(client, 'heartbeat', job, { progress: 'ü'.repeat(2048) }), invalid('progress', /4096/));
  assert.equal((await get(client, job.id)).progress, 'ü'.repeat(2047));
});

test('a progress stays until another one is given, and belongs to its lease', async () => {
  const job = await leased(client, 'progress');
  await settleOk(client, 'heartbeat', job, { progress: { done: 40 } });
  await settleOk(client, 'heartbeat', job);
  assert.deepEqual((await get(client, job.id)).progress, { done: 40 });
  await settleOk(client, 'heartbeat', job, { progress: null });
  assert.equal((await get(client, job.id)).progress, null);
  await settleOk(client, 'release', job);
  await leaseOne(client, 'progress');
  assert.equal('progress' in (await get(client, job.id)), false);
});

test('with maxLeaseDuration a heartbeat is OK but stops at leasedAt + maxLeaseDuration', async () => {
  await putQueue(client, 'capped', { maxLeaseDuration: '60s', visibilityTimeout: '40s' });
  const job = await leased(client, 'capped');
  const end = at(job.leaseExpiresAt) + 20_000;
  assertLeft((await settleOk(client, 'heartbeat', job)).remaining, 40_000);
  await age(service, [job.id], 30);
  const beat = await settleOk(client, 'heartbeat', job);
  assertLeft(beat.remaining, 30_000);
  assert.ok(Math.abs(at(beat.leaseExpiresAt) - (end - 30_000)) <= 1, beat.leaseExpiresAt);
  assertLeft((await settleOk(client, 'heartbeat', job, { visibilityTimeout: '12h' })).remaining, 30_000);
  await age(service, [job.id], 31);
  assertProblem(await settle(client, 'heartbeat', job), LEASE_LOST);
});

test('maxLeaseDuration bounds the first stretch of a lease too, and is the one in force at the lease', async () => {
  await putQueue(client, 'short', { maxLeaseDuration: '5s' });
  const job = await leased(client, 'short');
  assert.ok(at(job.leaseExpiresAt) - Date.now() <= 5_000);
  await putQueue(client, 'short', { reset: ['maxLeaseDuration'] });
  assertLeft((await settleOk(client, 'heartbeat', job)).remaining, 5_000);
  assertProblem(await client.put('/v1/queues/short', { maxLeaseDuration: '999ms' }), invalid('maxLeaseDuration', /1s/));
});

test('once a lease has run out, noticed or not, a heartbeat is LEASE_LOST and cannot bring it back', async () => {
  const job = await leased(client, 'over');
  await runOut(service, [job.id]);
  assertProblem(await settle(client, 'heartbeat', job), LEASE_LOST);
  await until('the end to be noticed', async () => (await get(client, job.id)).state === 'ready');
  const noticed = await settle(client, 'heartbeat', job);
  assertProblem(noticed, LEASE_LOST);
  assert.equal(noticed.body.settledAs, 'EXPIRED');
});

test('a heartbeat says that a cancel is asked for', async () => {
  const job = await leased(client, 'cancel');
  await client.post(`/v1/jobs/${job.id}/cancel`);
  assert.equal((await settleOk(client, 'heartbeat', job)).cancelRequested, true);
});

test('an idle heartbeat of 300 leases in one call extends them all', async () => {
  const jobs = Array.from({ length: 300 }, () => ({ queue: 'crowd' }));
  await client.post('/v1/jobs/batch', { jobs });
  const { body } = await client.post('/v1/queues/crowd/lease', { maxJobs: 300, visibilityTimeout: '10s' });
  const items = body.jobs.map(({ leaseToken }: any, index: number) => ({
    leaseToken,
    progress: index,
    visibilityTimeout: '100s',
  }));
  const { results } = (await client.post('/v1/leases/heartbeat', { items })).body;
  for (const result of results) assertLeft(result.remaining, 100_000);
  for (const index of [0, 150, 299]) assert.equal((await get(client, body.jobs[index].id)).progress, index);
});
