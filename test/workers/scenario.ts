import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { after, afterEach, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { until } from '../helpers/service.js';
import {
  createInstallation,
  endWith,
  type Installation,
  runProgram,
  type Running,
  type ServiceProcess,
  startService,
} from '../helpers/service-process.js';

/** A worker that runs the demonstration handler of examples/README.md. */
export interface Worker {
  readonly name: string;
  /** The command line; `connection` is `--url` (gRPC: `--target`), `--key-file`, `--queue` and `--worker`, each with its value. */
  command(connection: readonly string[]): readonly string[];
  /** Default `http`. */
  readonly transport?: 'http' | 'grpc';
  /** Programs without which it cannot run: the machine may lack them. */
  readonly needs: readonly string[];
  /** How many of it share the work; more than 1 for a worker of one job at a time. Default 1. */
  readonly processes?: number;
}

/** What a payload's `do` is to come to. */
interface Fate {
  readonly payload: { readonly do?: string; readonly ms?: number };
  readonly state: 'completed' | 'dead';
  readonly outcomes: readonly string[];
}

interface Expected extends Fate {
  readonly id: string;
}

const PLAIN: Fate = { payload: {}, state: 'completed', outcomes: ['ACKED'] };
const STEADY: Fate = { ...PLAIN, payload: { ms: 100 } };
const SLOW: Fate = { payload: { do: 'slow' }, state: 'completed', outcomes: ['ACKED'] };
const FAILS_ONCE: Fate = { payload: { do: 'fail-once' }, state: 'completed', outcomes: ['NACKED', 'ACKED'] };
const POISON: Fate = { payload: { do: 'poison' }, state: 'dead', outcomes: ['NACKED', 'NACKED', 'NACKED'] };

const LEASE_SECONDS = 2;
const SETTINGS = {
  maxAttempts: 3,
  retry: { type: 'fixed', delays: ['100ms'], jitter: 0 },
  visibilityTimeout: `${LEASE_SECONDS}s`,
};
const STOP_MS = 8_000;
const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url));

/** Where a file of an example lies that is not compiled. */
export function exampleFile(name: string): string {
  return path.join(EXAMPLES, name);
}

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
  test(`the ${worker.name} says plainly that its key is refused, and ends`, { skip }, () => refusedKeyEnds(room));
}

interface Room {
  readonly worker: Worker;
  readonly started: Running[];
  readonly installation: Installation;
  readonly service: ServiceProcess;
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

async function refusedKeyEnds(room: Room): Promise<void> {
  const keyFile = path.join(room.installation.dataDirectory, 'postgres-password');
  const running = start(room, 'mail', 'w1', keyFile);
  await until('it has ended', () => running.child.exitCode !== null);
  assert.equal((await running.exit).code, 1, running.output());
  assert.match(running.output(), /UNAUTHENTICATED/i);
}

function start(
  { worker, started, installation, service }: Room,
  queue: string,
  name: string,
  keyFile = installation.keyFile,
): Running {
  const address = worker.transport === 'grpc' ? ['--target', service.grpc] : ['--url', service.base];
  const connection = [...address, '--key-file', keyFile, '--queue', queue, '--worker', name];
  const [program, ...args] = worker.command(connection);
  const running = runProgram(program!, args, { PYTHONDONTWRITEBYTECODE: '1' });
  started.push(running);
  return running;
}

/** As an operator does it; each is to end with 0. */
async function stopAll({ started }: Room): Promise<void> {
  const ends = await Promise.all(started.map((running) => endWith(running, 'SIGTERM')));
  for (const [index, { code, took }] of ends.entries()) {
    assert.equal(code, 0, started[index]!.output());
    assert.ok(took < STOP_MS, `the stop took ${took} ms`);
  }
  started.length = 0;
}

async function killAll(started: readonly Running[]): Promise<void> {
  for (const { child, exit } of started) {
    child.kill('SIGKILL');
    await exit;
  }
}

function times(fate: Fate, count: number): Fate[] {
  return Array.from({ length: count }, () => fate);
}

async function fill({ service }: Room, queue: string, fates: readonly Fate[]): Promise<Expected[]> {
  const settings = await service.client.put(`/v1/queues/${queue}`, SETTINGS);
  assert.ok(settings.status < 300, settings.text);
  const jobs = fates.map(({ payload }, number) => ({ queue, payload: { ...payload, number } }));
  const { status, body, text } = await service.client.post('/v1/jobs/batch', { jobs });
  assert.equal(status, 201, text);
  return fates.map((fate, index) => ({ ...fate, id: body.jobs[index].id as string }));
}

function read({ service }: Room, jobs: readonly Expected[]): Promise<any[]> {
  return Promise.all(jobs.map(async ({ id }) => (await service.client.get(`/v1/jobs/${id}`)).body));
}

/** In milliseconds. */
function durationOf({ startedAt, endedAt }: { readonly startedAt: string; readonly endedAt: string }): number {
  return Date.parse(endedAt) - Date.parse(startedAt);
}

type Counts = Record<'scheduled' | 'ready' | 'leased' | 'dead', number>;

async function counts({ service, started }: Room, queue: string): Promise<Counts> {
  const { status, body, text } = await service.client.get(`/v1/queues/${queue}/stats`);
  assert.equal(status, 200, text);
  const failed = started.find(({ child }) => child.exitCode !== null && child.exitCode !== 0);
  assert.equal(failed, undefined, `a worker has ended: ${failed?.output()}`);
  return body.counts;
}

async function allEnd(room: Room, queue: string): Promise<void> {
  await until(
    'all have ended',
    async () => {
      // Counting costs the service more than a job does: the workers are to have the machine.
      await pause(200);
      return open(await counts(room, queue)) === 0;
    },
    60_000,
  );
}

function open({ scheduled, ready, leased }: Counts): number {
  return scheduled + ready + leased;
}

/** A release is no attempt: what was handed back is tried again under the same number. */
function assertFate(job: any, { state, outcomes, payload }: Expected): void {
  const spent = job.attempts.filter(({ outcome }: any) => outcome !== 'RELEASED');
  const seen = {
    payload: job.payload.do,
    state: job.state,
    outcomes: spent.map(({ outcome }: any) => outcome),
    attempt: job.attempt,
  };
  assert.deepEqual(seen, { payload: payload.do, state, outcomes, attempt: outcomes.length }, JSON.stringify(job));
}
