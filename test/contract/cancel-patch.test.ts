import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  at,
  CONFLICT,
  enqueue,
  get,
  invalid,
  lease,
  LEASE_LOST,
  leased,
  leaseOne,
  NOT_FOUND,
  runOut,
  settle,
  settleOk,
  UNKNOWN_ID,
} from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const cancel = (id: string, body?: object) => client.post(`/v1/jobs/${id}/cancel`, body);
const patch = (id: string, body: object) => client.patch(`/v1/jobs/${id}`, body);
const ahead = (ms: number): string => new Date(Date.now() + ms).toISOString();

test('a ready or scheduled job is cancelled at once, and never leased', async () => {
  for (const fields of [{}, { delay: '1h' }]) {
    const id = await enqueue(client, 'waiting', fields);
    const answer = await cancel(id);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.state, 'cancelled');
    assert.equal(typeof answer.body.finishedAt, 'string');
  }
  assert.deepEqual(await lease(client, 'waiting'), []);
});

test('cancel answers the job as GetJob does', async () => {
  const id = await enqueue(client, 'same', { payload: { a: 1 }, kind: 'k' });
  assert.deepEqual((await cancel(id)).body, await get(client, id));
});

test('a leased job is only asked to stop: an ack still completes it', async () => {
  const job = await leased(client, 'acked');
  const asked = await cancel(job.id);
  assert.deepEqual([asked.status, asked.body.state, asked.body.cancelRequested], [200, 'leased', true]);
  await settleOk(client, 'ack', job);
  const done = await get(client, job.id);
  assert.deepEqual([done.state, done.cancelRequested], ['completed', false]);
});

test('a nack, a release or the end of the lease makes a job cancelled that was asked to stop', async () => {
  for (const verb of ['nack', 'release'] as const) {
    const job = await leased(client, `asked-${verb}`);
    await cancel(job.id);
    await settleOk(client, verb, job);
    assert.equal((await get(client, job.id)).state, 'cancelled');
  }
  const job = await leased(client, 'asked-expiry');
  await cancel(job.id);
  await runOut(service, [job.id]);
  await until('it to be cancelled', async () => (await get(client, job.id)).state === 'cancelled');
});

test('with force a leased job is cancelled at once and its holder is told LEASE_LOST', async () => {
  const job = await leased(client, 'forced');
  assert.equal((await cancel(job.id, { force: true })).body.state, 'cancelled');
  for (const verb of ['heartbeat', 'ack', 'nack', 'release'] as const)
    assertProblem(await settle(client, verb, job), LEASE_LOST);
  assert.equal((await get(client, job.id)).attempts[0].outcome, 'CANCELLED');
});

test('force on a job that was asked to stop before cancels it', async () => {
  const job = await leased(client, 'asked-forced');
  await cancel(job.id);
  assert.equal((await cancel(job.id, { force: false })).body.state, 'leased');
  assert.equal((await cancel(job.id, { force: true })).body.state, 'cancelled');
});

test('cancelling a cancelled job changes nothing; a completed or dead one is 409; an unknown one 404', async () => {
  const id = await enqueue(client, 'again');
  const first = await cancel(id);
  assert.deepEqual((await cancel(id)).body, first.body);
  const done = await leased(client, 'again');
  await settleOk(client, 'ack', done);
  assertProblem(await cancel(done.id), CONFLICT);
  assertProblem(await cancel(done.id, { force: true }), CONFLICT);
  const dead = await leased(client, 'again');
  await settleOk(client, 'nack', dead, { final: true });
  assertProblem(await cancel(dead.id), CONFLICT);
  assertProblem(await cancel(UNKNOWN_ID), NOT_FOUND);
});

test('cancel takes force alone, and a UUID', async () => {
  const id = await enqueue(client, 'input');
  assertProblem(await cancel(id, { reason: 'x' }), invalid('reason', /not a known field/));
  assertProblem(await cancel(id, { force: 'yes' }), invalid('force', /true or false/));
  assertProblem(await cancel('nonsense'), invalid('id', /UUID/));
  assert.equal((await get(client, id)).state, 'ready');
});

test('a higher priority by patch puts a job first; within its new priority it is at the tail', async () => {
  const ids = [];
  for (let index = 0; index < 3; index += 1) ids.push(await enqueue(client, 'priority'));
  const answer = await patch(ids[2]!, { priority: 5 });
  assert.deepEqual([answer.status, answer.body.priority, answer.body.state], [200, 5, 'ready']);
  await patch(ids[0]!, { priority: 0 });
  const order = (await lease(client, 'priority', { maxJobs: 3 })).map(({ id }) => id);
  assert.deepEqual(order, [ids[2], ids[1], ids[0]]);
});

test('a future runAt or delay makes a ready job scheduled, a past one makes a scheduled job ready', async () => {
  const id = await enqueue(client, 'run-at');
  const runAt = ahead(3_600_000);
  const later = await patch(id, { runAt });
  assert.deepEqual([later.body.state, at(later.body.runAt)], ['scheduled', at(runAt)]);
  assert.deepEqual(await lease(client, 'run-at'), []);
  const now = await patch(id, { runAt: '2001-01-01T00:00:00Z' });
  assert.equal(now.body.state, 'ready');
  assert.equal((await patch(id, { delay: '1h' })).body.state, 'scheduled');
  assert.equal((await patch(id, { delay: '0s', priority: 3 })).body.state, 'ready');
  const job = await leaseOne(client, 'run-at');
  assert.deepEqual([job.id, job.priority, job.attempt, job.leaseEpoch], [id, 3, 1, 1]);
});

test('a patch that makes a job ready wakes those who wait', async () => {
  const id = await enqueue(client, 'wakes', { delay: '1h' });
  const waiting = lease(client, 'wakes', { wait: '20s' });
  await patch(id, { delay: '0s' });
  assert.equal((await waiting)[0].id, id);
});

test('a patch of what is neither scheduled nor ready is 409, of what is not there 404', async () => {
  const job = await leased(client, 'states');
  assertProblem(await patch(job.id, { priority: 1 }), CONFLICT);
  await settleOk(client, 'ack', job);
  assertProblem(await patch(job.id, { priority: 1 }), CONFLICT);
  const dead = await leased(client, 'states');
  await settleOk(client, 'nack', dead, { final: true });
  assertProblem(await patch(dead.id, { delay: '1s' }), CONFLICT);
  const cancelled = await enqueue(client, 'states');
  await cancel(cancelled);
  assertProblem(await patch(cancelled, { delay: '1s' }), CONFLICT);
  assertProblem(await patch(UNKNOWN_ID, { delay: '1s' }), NOT_FOUND);
});

test('the bounds of a patch: something to change, priority ±1000, 366 days, not both times', async () => {
  const id = await enqueue(client, 'bounds');
  assertProblem(await patch(id, {}), { status: 400, code: 'INVALID_ARGUMENT' });
  for (const priority of [1000, -1000]) assert.equal((await patch(id, { priority })).body.priority, priority);
  assertProblem(await patch(id, { priority: 1001 }), invalid('priority', /1000/));
  assertProblem(await patch(id, { priority: -1001 }), invalid('priority', /-1000/));
  assert.equal((await patch(id, { delay: '366d' })).status, 200);
  assertProblem(await patch(id, { delay: '31622400001ms' }), invalid('delay', /366d/));
  assert.equal((await patch(id, { runAt: ahead(366 * 86_400_000 - 5_000) })).status, 200);
  assertProblem(await patch(id, { runAt: ahead(366 * 86_400_000 + 5_000) }), invalid('runAt', /366 days/));
  assertProblem(await patch(id, { runAt: ahead(1), delay: '1s' }), invalid(['runAt', 'delay']));
  assertProblem(await patch(id, { payload: 1 }), invalid('payload', /not a known field/));
});

test('a patch never makes a job due after its expiresAt', async () => {
  const id = await enqueue(client, 'expires', { expiresAt: ahead(3_600_000) });
  assertProblem(await patch(id, { delay: '2h' }), invalid('delay', /expiresAt/));
  assertProblem(await patch(id, { runAt: ahead(7_200_000) }), invalid('runAt', /expiresAt/));
  assert.equal((await patch(id, { delay: '30m' })).status, 200);
});

test('cancel and patch need the scope manage', async () => {
  const other = await service.tenant({ scopes: ['enqueue', 'work', 'read'] });
  const denied = { status: 403, code: 'PERMISSION_DENIED' };
  assertProblem(await other.post(`/v1/jobs/${UNKNOWN_ID}/cancel`), denied);
  assertProblem(await other.patch(`/v1/jobs/${UNKNOWN_ID}`, { priority: 1 }), denied);
});

test('of a cancel and a lease at the same instant exactly one has the job', async () => {
  for (let round = 0; round < 20; round += 1) {
    const id = await enqueue(client, 'race');
    const [jobs, answer] = await Promise.all([lease(client, 'race'), cancel(id, { force: false })]);
    const state = answer.body.state as string;
    assert.equal(jobs.length === 1 ? 'leased' : 'cancelled', state);
    if (jobs.length === 1) await settleOk(client, 'nack', jobs[0]);
    assert.equal((await get(client, id)).state, 'cancelled');
  }
});
