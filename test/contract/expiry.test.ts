import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { at, enqueue, get, lease, leased, leaseOne, runOut, settle, settleOk } from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const ahead = (ms: number): string => new Date(Date.now() + ms).toISOString();
const HOUR_MS = 3_600_000;
const TABLES = ['ready', 'scheduled', 'lease', 'dead'] as const;

/** Moves a job's expiresAt into the past, wherever it stands. */
async function expire(id: string): Promise<void> {
  const past = `expires_at = clock_timestamp() - interval '1 millisecond'`;
  for (const table of TABLES) await service.sql(`update stint.${table} set ${past} where job_id = $1`, [id]);
  await service.sql(`update stint.job_expiry set ${past} where job_id = $1`, [id]);
  await service.sql(`update stint.job set ${past} where id = $1`, [id]);
}

const dies = (id: string, within = 10_000) =>
  until(
    'it to be dead',
    async () => {
      const job = await get(client, id);
      return job.state === 'dead' ? job : undefined;
    },
    within,
  );

// At once, since most of them wait for the task that looks for expired jobs every few seconds.
describe('expiresAt', { concurrency: true }, () => {
  test('from expiresAt on a ready job is never leased, noticed or not, and is dead within 10 s', async () => {
    const made = await client.post('/v1/queues/ready/jobs', { expiresAt: ahead(400) });
    assert.equal(made.status, 201, made.text);
    const { expiresAt } = await get(client, made.body.id);
    await until('the instant', () => Date.now() > at(expiresAt) + 50);
    assert.deepEqual(await lease(client, 'ready'), []);
    const job = await dies(made.body.id);
    assert.equal(job!.deadReason, 'expired');
    assert.equal(job!.attempt, 0);
    assert.ok(at(job!.finishedAt) - at(expiresAt) < 10_000);
  });

  test('a job is leased before its expiresAt', async () => {
    const job = await leased(client, 'before', { expiresAt: ahead(HOUR_MS) });
    await settleOk(client, 'ack', job);
  });

  test('a scheduled job whose expiresAt passes is dead without having been ready', async () => {
    const id = await enqueue(client, 'scheduled', { delay: '1h', expiresAt: ahead(2 * HOUR_MS) });
    await expire(id);
    assert.equal((await dies(id))!.deadReason, 'expired');
  });

  test('one expired job does not keep those behind it from being leased', async () => {
    const first = await enqueue(client, 'behind', { priority: 9, expiresAt: ahead(HOUR_MS) });
    const second = await enqueue(client, 'behind');
    await expire(first);
    assert.equal((await leaseOne(client, 'behind', { maxJobs: 10 })).id, second);
  });

  test('a running lease goes on past expiresAt: heartbeats are OK and the ack counts', async () => {
    const job = await leased(client, 'running', { expiresAt: ahead(HOUR_MS) });
    await expire(job.id);
    await settleOk(client, 'heartbeat', job);
    await settleOk(client, 'ack', job);
    assert.equal((await get(client, job.id)).state, 'completed');
  });

  test('past expiresAt a failure is final: a nack is dead as expired, although attempts are left', async () => {
    const job = await leased(client, 'nacked', { expiresAt: ahead(HOUR_MS) });
    await expire(job.id);
    await settleOk(client, 'nack', job, { error: { message: 'too late' }, delay: '1h' });
    const dead = await get(client, job.id);
    assert.deepEqual([dead.state, dead.deadReason, dead.lastError.message], ['dead', 'expired', 'too late']);
  });

  test('past expiresAt a lease that runs out makes the job dead; a late ack of it still counts', async () => {
    const job = await leased(client, 'ran-out', { expiresAt: ahead(HOUR_MS) });
    await expire(job.id);
    await runOut(service, [job.id]);
    const dead = await dies(job.id);
    assert.deepEqual([dead!.deadReason, dead!.lastError.type], ['expired', 'lease_expired']);
    assert.equal((await settle(client, 'ack', job)).body.outcome, 'OK');
    assert.equal((await get(client, job.id)).state, 'completed');
  });

  test('a job nacked before expiresAt is dead once it passes: it bounds the start of every attempt', async () => {
    const job = await leased(client, 'every', { expiresAt: ahead(HOUR_MS) });
    await settleOk(client, 'nack', job, { delay: '30m' });
    assert.equal((await get(client, job.id)).state, 'scheduled');
    await expire(job.id);
    assert.equal((await dies(job.id))!.deadReason, 'expired');
  });

  test('whoever waits for the end of a job is told when it expires', async () => {
    const id = await enqueue(client, 'waited-for', { expiresAt: ahead(HOUR_MS) });
    const waiting = client.get(`/v1/jobs/${id}?wait=30s`);
    await expire(id);
    assert.equal((await waiting).body.state, 'dead');
  });

  test('a redrive clears expiresAt', async () => {
    const id = await enqueue(client, 'redriven', { expiresAt: ahead(HOUR_MS) });
    await expire(id);
    await dies(id);
    const redrive = await client.post('/v1/queues/redriven/dead/redrive', { ids: [id] });
    assert.deepEqual(redrive.body, { matched: 1, redriven: 1 });
    const job = await leaseOne(client, 'redriven');
    assert.equal(job.attempt, 1);
    assert.equal('expiresAt' in (await get(client, id)), false);
  });
});
