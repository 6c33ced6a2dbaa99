import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { until } from '../helpers/service.js';
import { createInstallation, endWith, type Running, startService } from '../helpers/service-process.js';
import {
  allEnd,
  assertFate,
  counts,
  durationOf,
  fill,
  killAll,
  LEASE_SECONDS,
  open,
  read,
  start,
  stopAll,
  times,
  type Fate,
  type Room,
  type Worker,
} from './room.js';

const PLAIN: Fate = { payload: {}, state: 'completed', outcomes: ['ACKED'] };
const STEADY: Fate = { ...PLAIN, payload: { ms: 100 } };
const SLOW: Fate = { payload: { do: 'slow' }, state: 'completed', outcomes: ['ACKED'] };
const LONG: Fate = { ...PLAIN, payload: { ms: 60_000 } };
const FAILS_ONCE: Fate = { payload: { do: 'fail-once' }, state: 'completed', outcomes: ['NACKED', 'ACKED'] };
const POISON: Fate = { payload: { do: 'poison' }, state: 'dead', outcomes: ['NACKED', 'NACKED', 'NACKED'] };

/** Declares the tests that every worker passes, on a service of their own. */
export function proveWorker(worker: Worker): void {
  const missing = worker.needs.filter((program) => spawnSync(program, ['--version']).error !== undefined);
  const skip = missing.length > 0 && `${missing.join(', ')} not installed`;
  const shared = { worker, started: [] as Running[] };
  let room: Room;

  if (skip === false) {
    before(async () => {
      const installation = await createInstallation();
      room = { ...shared, installation, service: await startService(installation) };
    });
    afterEach(() => killAll(shared.started.splice(0)));
    after(async () => {
      await endWith(room.service, 'SIGTERM');
      await room.installation.remove();
    });
  }

  test(
    `C20: the ${worker.name} brings 200 jobs to where they belong, and keeps those slower than their lease`,
    { skip },
    () => everyJobEnds(room),
  );
  test(`C25: the ${worker.name} that is told to stop amid its work loses nothing and strands nothing`, { skip }, () =>
    stopLosesNothing(room),
  );
  test(`the ${worker.name} stops working on a job whose cancellation is asked for`, { skip }, () =>
    cancelStopsWork(room),
  );
  test(`C20: the ${worker.name} stops working on a job whose lease is lost, and goes on with the next`, { skip }, () =>
    lostStopsWork(room),
  );
  // What the shell worker starts is not frozen with it.
  if (worker.slots > 1) {
    test(
      `C20: the ${worker.name} that was frozen beyond its leases leaves their jobs to who has them now`,
      { skip },
      () => frozenYields(room),
    );
  }
  test(`the ${worker.name} says plainly that its key is refused, and ends`, { skip }, () => refusedKeyEnds(room));
}

async function everyJobEnds(room: Room): Promise<void> {
  const { worker } = room;
  const queue = 'scenario';
  const jobs = await fill(room, queue, [
    ...times(SLOW, 3),
    ...times(FAILS_ONCE, 20),
    ...times(POISON, 2),
    ...times(PLAIN, 175),
  ]);
  for (let number = 1; number <= (worker.processes ?? 1); number += 1) start(room, queue, `w${number}`);
  await allEnd(room, queue);
  await stopAll(room);
  for (const [index, body] of (await read(room, jobs)).entries()) {
    const expected = jobs[index]!;
    assertFate(body, expected);
    for (const { worker: name } of body.attempts) assert.match(name, /^w\d$/);
    if (expected.payload.do === 'slow') {
      const took = durationOf(body.attempts[0]);
      assert.ok(took > LEASE_SECONDS * 1_000, `the slow job took ${took} ms: no longer than its lease`);
    }
    if (expected.payload.do === 'poison') assert.match(body.lastError.message, /poison/);
  }
}

async function stopLosesNothing(room: Room): Promise<void> {
  const queue = 'stopped';
  const jobs = await fill(room, queue, [SLOW, ...times(STEADY, 49), SLOW, ...times(STEADY, 49)]);
  for (let number = 1; number <= (room.worker.processes ?? 1); number += 1) start(room, queue, `first${number}`);
  await until(
    'some are done, and one is at work',
    async () => {
      const now = await counts(room, queue);
      return open(now) <= jobs.length - 10 && now.leased > 0;
    },
    20_000,
  );
  await stopAll(room);
  await until('no lease is left behind', async () => (await counts(room, queue)).leased === 0, 1_000);
  const { ready, scheduled } = await counts(room, queue);
  assert.ok(ready > 0 && scheduled === 0, `the stop came when all was done: ${ready} ready, ${scheduled} scheduled`);

  for (let number = 1; number <= (room.worker.processes ?? 1); number += 1) start(room, queue, `second${number}`);
  await allEnd(room, queue);
  await stopAll(room);
  for (const [index, body] of (await read(room, jobs)).entries()) assertFate(body, jobs[index]!);
}

async function cancelStopsWork(room: Room): Promise<void> {
  const { client } = room.service;
  const [job] = await fill(room, 'cancelled', [SLOW]);
  start(room, 'cancelled', 'w1');
  await until('the job is at work', async () => (await counts(room, 'cancelled')).leased === 1);
  assert.equal((await client.post(`/v1/jobs/${job!.id}/cancel`, {})).status, 200);
  const body = await until('the job is cancelled', async () => {
    const answer = await client.get(`/v1/jobs/${job!.id}?wait=1s`);
    return answer.body.state !== 'leased' && answer.body;
  });
  await stopAll(room);
  assert.equal(body.state, 'cancelled');
  const took = durationOf(body.attempts[0]);
  assert.ok(took < LEASE_SECONDS * 1_500, `the work went on for ${took} ms`);
}

async function lostStopsWork(room: Room): Promise<void> {
  const { client } = room.service;
  const queue = 'lost';
  const lost = await fill(room, queue, times(SLOW, room.worker.slots));
  // So slow that the test is over before they are.
  await client.put(`/v1/queues/${queue}`, { visibilityTimeout: '8s' });
  start(room, queue, 'w1');
  await until('all are at work', async () => (await counts(room, queue)).leased === lost.length);
  for (const { id } of lost) assert.equal((await client.post(`/v1/jobs/${id}/cancel`, { force: true })).status, 200);
  const next = await fill(room, queue, times(PLAIN, room.worker.slots));
  await until('the next are done', async () => open(await counts(room, queue)) === 0);
  await stopAll(room);
  for (const [index, body] of (await read(room, next)).entries()) assertFate(body, next[index]!);
  for (const body of await read(room, lost)) assert.deepEqual([body.state, body.result], ['cancelled', undefined]);
}

async function frozenYields(room: Room): Promise<void> {
  const { client } = room.service;
  const queue = 'frozen';
  const { slots } = room.worker;
  const jobs = await fill(room, queue, times(LONG, slots));
  const { child } = start(room, queue, 'w1');
  await until('all are at work', async () => (await counts(room, queue)).leased === slots);
  child.kill('SIGSTOP');
  const taken: any[] = [];
  await until('another has them all', async () => {
    const { body } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: slots, visibilityTimeout: '60s' });
    return taken.push(...body.jobs) === slots;
  });
  child.kill('SIGCONT');
  const next = await fill(room, queue, times(PLAIN, slots));
  await until('the next are done', async () => open(await counts(room, queue)) === slots);
  await stopAll(room);
  const acks = taken.map(({ leaseToken }) => ({ leaseToken, result: 'by the other' }));
  const { results } = (await client.post('/v1/leases/ack', { items: acks })).body;
  for (const { outcome } of results) assert.equal(outcome, 'OK');
  for (const [index, body] of (await read(room, next)).entries()) assertFate(body, next[index]!);
  for (const body of await read(room, jobs)) {
    assert.deepEqual([body.state, body.result], ['completed', 'by the other']);
    assert.deepEqual(
      body.attempts.map(({ outcome }: { outcome: string }) => outcome),
      ['EXPIRED', 'ACKED'],
      'it was not given to the frozen one again',
    );
  }
}

async function refusedKeyEnds(room: Room): Promise<void> {
  const keyFile = path.join(room.installation.dataDirectory, 'postgres-password');
  const running = start(room, 'mail', 'w1', keyFile);
  await until('it has ended', () => running.child.exitCode !== null);
  assert.equal((await running.exit).code, 1, running.output());
  assert.match(running.output(), /UNAUTHENTICATED/i);
}
