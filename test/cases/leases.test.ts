import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import {
  age,
  assertProblem,
  at,
  CONFLICT,
  enqueue,
  get,
  lease,
  LEASE_LOST,
  leased,
  leaseOne,
  milliseconds,
  putQueue,
  runOut,
  settle,
  settleOk,
  type Verb,
} from '../contract/jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const VERBS: readonly Verb[] = ['ack', 'nack', 'heartbeat', 'release'];
const batch = (queue: string, count: number, fields: object = {}) =>
  client.post('/v1/jobs/batch', { jobs: Array.from({ length: count }, () => ({ queue, ...fields })) });
const hasState = (id: string, state: string) =>
  until(`it to be ${state}`, async () => (await get(client, id)).state === state);

describe('leases that run out', { concurrency: true }, () => {
  test('C14: an ack at the very end of a lease is either OK and final, or lost and the job goes on; no new lease is touched', async () => {
    const count = 200;
    await batch('c14', count);
    const held = await lease(client, 'c14', { maxJobs: count, visibilityTimeout: '30s' });
    // The ends are spread over a second, in which the reaper passes twice.
    const [row] = await service.sql(
      `with ends as (
         update stint.lease set lease_expires_at = clock_timestamp() + interval '100 ms' + random() * interval '1 s'
         where job_id = any($1::uuid[]) returning job_id, lease_expires_at)
       select json_object_agg(job_id, (extract(epoch from lease_expires_at) * 1000)::float8) as ends,
         (extract(epoch from clock_timestamp()) * 1000)::float8 as now from ends`,
      [held.map(({ id }) => id)],
    );
    const started = performance.now();
    const stopped = new AbortController();
    const others = takeAll('c14', stopped.signal);
    const acks = await Promise.all(
      held.map(async (job) => {
        const end = row.ends[job.id] - row.now - (performance.now() - started);
        await pause(Math.max(0, end - 5 + Math.random() * 10));
        return settle(client, 'ack', job);
      }),
    );
    await until(
      'every job that was lost to be leased again',
      async () => (await client.get('/v1/queues/c14')).body.counts.ready === 0,
    );
    stopped.abort();
    const again = new Map((await others).map((job) => [job.id, job]));
    for (const [index, job] of held.entries()) {
      const now = await get(client, job.id);
      if (acks[index]!.status === 200) {
        assert.deepEqual([now.state, again.has(job.id)], ['completed', false]);
      } else {
        assertProblem(acks[index]!, LEASE_LOST);
        assert.equal(now.state, 'leased');
        await settleOk(client, 'heartbeat', again.get(job.id));
      }
    }
  });

  test('C15: while another holds the job, the calls of the old holder are lost and change nothing', async () => {
    for (const first of VERBS) {
      const queue = `c15-${first}`;
      const old = await leased(client, queue, {}, { worker: 'same-name' });
      await runOut(service, [old.id]);
      const current = await leaseOne(client, queue, { worker: 'same-name' });
      assert.deepEqual([current.id, current.leaseEpoch > old.leaseEpoch, current.attempt], [old.id, true, 2]);
      for (const verb of [first, ...VERBS]) {
        const answer = await settle(client, verb, old);
        assertProblem(answer, LEASE_LOST);
        assert.equal(answer.body.settledAs, 'EXPIRED');
      }
      const now = await get(client, old.id);
      assert.deepEqual([now.state, now.leaseExpiresAt], ['leased', current.leaseExpiresAt]);
      await settleOk(client, 'ack', current);
      assertProblem(await settle(client, 'ack', old), LEASE_LOST);
    }
  });

  test('C15: while nobody has leased it since, a late ack is OK and spares the second run', async () => {
    const job = await leased(client, 'c15-late');
    await runOut(service, [job.id]);
    await hasState(job.id, 'ready');
    await settleOk(client, 'ack', job, { result: 'late' });
    const done = await get(client, job.id);
    assert.deepEqual([done.state, done.result, done.attempt], ['completed', 'late', 1]);
    assert.deepEqual(await lease(client, 'c15-late'), []);
  });

  test('C19: a delayed job is never leased early and never doubled, however short its lease', async () => {
    await putQueue(client, 'c19', { visibilityTimeout: '1s' });
    const id = await enqueue(client, 'c19', { delay: '1h' });
    const job = await leased(client, 'c19');
    await settleOk(client, 'nack', job, { delay: '1h' });
    await runOut(service, [id, job.id]);
    assert.deepEqual(await lease(client, 'c19', { maxJobs: 10, wait: '1200ms' }), []);
    const { counts } = (await client.get('/v1/queues/c19')).body;
    assert.deepEqual(counts, { scheduled: 2, ready: 0, leased: 0, dead: 0 });
  });

  test('C19: prefetched jobs are kept by one heartbeat for all, and handed back without an attempt spent', async () => {
    await batch('c19-prefetch', 40);
    const held = await lease(client, 'c19-prefetch', { maxJobs: 40, visibilityTimeout: '2s' });
    const items = held.map(({ leaseToken }) => ({ leaseToken, visibilityTimeout: '1m' }));
    const beats = (await client.post('/v1/leases/heartbeat', { items })).body.results;
    assert.ok(beats.every(({ outcome }: any) => outcome === 'OK'));
    const unstarted = held.slice(1).map(({ leaseToken }) => ({ leaseToken }));
    assert.ok(
      (await client.post('/v1/leases/release', { items: unstarted })).body.results.every(
        ({ outcome }: any) => outcome === 'OK',
      ),
    );
    const again = await lease(client, 'c19-prefetch', { maxJobs: 40 });
    assert.deepEqual(
      again.map(({ attempt }) => attempt),
      Array(39).fill(1),
    );
  });

  test('C20: steady heartbeats keep one runner for many times the length of a lease', async () => {
    const job = await leased(client, 'c20');
    const waiting = lease(client, 'c20', { wait: '2s' });
    for (let beat = 0; beat < 20; beat += 1) {
      await age(service, [job.id], 15);
      const { remaining } = await settleOk(client, 'heartbeat', job);
      assert.ok(milliseconds(remaining) > 25_000 && milliseconds(remaining) <= 30_000, remaining);
    }
    assert.deepEqual(await waiting, []);
    await settleOk(client, 'ack', job);
    const { attempts } = await get(client, job.id);
    assert.equal(attempts.length, 1);
    assert.ok(at(attempts[0].endedAt) - at(attempts[0].startedAt) >= 300_000);
  });

  test('C20: the first heartbeat after the end is told that the lease is lost', async () => {
    const job = await leased(client, 'c20-late', {}, { visibilityTimeout: '1s' });
    const [row] = await service.sql(
      `select (extract(epoch from lease_expires_at - clock_timestamp()) * 1000)::float8 as ms from stint.lease where job_id = $1`,
      [job.id],
    );
    await pause(Math.ceil(row.ms) + 1);
    assertProblem(await settle(client, 'heartbeat', job), LEASE_LOST);
    assert.equal((await leaseOne(client, 'c20-late')).attempt, 2);
  });

  test('C21: a worker’s heartbeats keep its own leases alive, not those of another worker of the same name', async () => {
    await batch('c21', 2);
    const [dead, alive] = await lease(client, 'c21', { worker: 'pod-1', maxJobs: 2 });
    const ids = [dead.id, alive.id];
    await age(service, ids, 20);
    await settleOk(client, 'heartbeat', alive);
    await age(service, ids, 11);
    const again = await leaseOne(client, 'c21', { worker: 'pod-1' });
    assert.deepEqual([again.id, again.attempt], [dead.id, 2]);
    await settleOk(client, 'heartbeat', alive);
    await settleOk(client, 'heartbeat', again);
    assertProblem(await settle(client, 'heartbeat', dead), LEASE_LOST);
  });

  test('C22: three attempts that expire, fail and expire are all counted, and then the job is dead', async () => {
    const id = await enqueue(client, 'c22', { maxAttempts: 3 });
    await leaseOne(client, 'c22');
    await runOut(service, [id]);
    await settleOk(client, 'nack', await leaseOne(client, 'c22'), { delay: '0s', error: { message: 'no' } });
    assert.equal((await leaseOne(client, 'c22')).attempt, 3);
    await runOut(service, [id]);
    await hasState(id, 'dead');
    const job = await get(client, id);
    assert.deepEqual(
      [job.attempt, job.deadReason, job.lastError.type, job.lastError.attempt],
      [3, 'attempts_spent', 'lease_expired', 3],
    );
    assert.deepEqual(
      job.attempts.map(({ attempt, outcome }: any) => [attempt, outcome]),
      [
        [1, 'EXPIRED'],
        [2, 'NACKED'],
        [3, 'EXPIRED'],
      ],
    );
    assert.deepEqual(await lease(client, 'c22'), []);
  });

  test('C22: releases between the attempts neither add to the count nor take from it', async () => {
    const id = await enqueue(client, 'c22-release', { maxAttempts: 2 });
    for (let round = 0; round < 40; round += 1)
      await settleOk(client, 'release', await leaseOne(client, 'c22-release'));
    await settleOk(client, 'nack', await leaseOne(client, 'c22-release'), { delay: '0s' });
    for (let round = 0; round < 40; round += 1)
      await settleOk(client, 'release', await leaseOne(client, 'c22-release'));
    const job = await leaseOne(client, 'c22-release');
    assert.deepEqual([job.attempt, job.leaseEpoch], [2, 82]);
    await settleOk(client, 'nack', job, { delay: '0s' });
    const dead = await get(client, id);
    assert.deepEqual([dead.state, dead.releases, dead.attempt], ['dead', 80, 2]);
  });

  test('C23: leases run out the same whoever is at work: no worker of the queue, a kind that nobody knows', async () => {
    const job = await leased(client, 'c23-x', { kind: 'nobody-knows' });
    const other = lease(client, 'c23-y', { wait: '3s' });
    await runOut(service, [job.id]);
    await hasState(job.id, 'ready');
    assert.deepEqual(await other, []);
    assert.deepEqual([(await leaseOne(client, 'c23-x')).id, (await get(client, job.id)).attempt], [job.id, 2]);
  });

  test('C23: in a paused queue the job returns and waits', async () => {
    const job = await leased(client, 'c23-paused');
    await client.post('/v1/queues/c23-paused/pause');
    await runOut(service, [job.id]);
    await hasState(job.id, 'ready');
    assert.deepEqual(await lease(client, 'c23-paused', { wait: '200ms' }), []);
    await client.post('/v1/queues/c23-paused/resume');
    assert.equal((await leaseOne(client, 'c23-paused')).id, job.id);
  });

  test('C23: a queue with live leases is deleted only by force', async () => {
    const job = await leased(client, 'c23-deleted');
    assertProblem(await client.delete('/v1/queues/c23-deleted'), CONFLICT);
    await settleOk(client, 'heartbeat', job);
    assert.ok((await client.delete('/v1/queues/c23-deleted?force=true')).status < 300);
    assertProblem(await settle(client, 'heartbeat', job), { status: 404, code: 'NOT_FOUND' });
  });
});

/** Leases whatever comes until told to stop. */
async function takeAll(queue: string, signal: AbortSignal): Promise<any[]> {
  const taken: any[] = [];
  while (!signal.aborted)
    taken.push(...(await lease(client, queue, { maxJobs: 50, wait: '100ms', visibilityTimeout: '1m' })));
  return taken;
}
