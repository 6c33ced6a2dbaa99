import assert from 'node:assert/strict';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { until } from '../helpers/service.js';
import {
  endWith,
  type Installation,
  runProgram,
  type Running,
  type ServiceProcess,
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
  /** How many jobs it works on at a time. */
  readonly slots: number;
  /** How many of it share the work; more than 1 for a worker of one job at a time. Default 1. */
  readonly processes?: number;
}

/** A service, and the workers that a test has started on it. */
export interface Room {
  readonly worker: Worker;
  readonly started: Running[];
  readonly installation: Installation;
  readonly service: ServiceProcess;
}

/** What a payload's `do` is to come to. */
export interface Fate {
  readonly payload: { readonly do?: string; readonly ms?: number };
  readonly state: 'completed' | 'dead';
  readonly outcomes: readonly string[];
}

export interface Expected extends Fate {
  readonly id: string;
}

/** Of the jobs that `fill` enqueues. */
export const LEASE_SECONDS = 2;
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

export function start(
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
export async function stopAll({ started }: Room): Promise<void> {
  const ends = await Promise.all(started.map((running) => endWith(running, 'SIGTERM')));
  for (const [index, { code, took }] of ends.entries()) {
    assert.equal(code, 0, started[index]!.output());
    assert.ok(took < STOP_MS, `the stop took ${took} ms`);
  }
  started.length = 0;
}

export async function killAll(started: readonly Running[]): Promise<void> {
  for (const { child, exit } of started) {
    child.kill('SIGKILL');
    await exit;
  }
}

export function times(fate: Fate, count: number): Fate[] {
  return Array.from({ length: count }, () => fate);
}

export async function fill({ service }: Room, queue: string, fates: readonly Fate[]): Promise<Expected[]> {
  const settings = await service.client.put(`/v1/queues/${queue}`, SETTINGS);
  assert.ok(settings.status < 300, settings.text);
  const jobs = fates.map(({ payload }, number) => ({ queue, payload: { ...payload, number } }));
  const { status, body, text } = await service.client.post('/v1/jobs/batch', { jobs });
  assert.equal(status, 201, text);
  return fates.map((fate, index) => ({ ...fate, id: body.jobs[index].id as string }));
}

export function read({ service }: Room, jobs: readonly Expected[]): Promise<any[]> {
  return Promise.all(jobs.map(async ({ id }) => (await service.client.get(`/v1/jobs/${id}`)).body));
}

/** In milliseconds. */
export function durationOf({ startedAt, endedAt }: { readonly startedAt: string; readonly endedAt: string }): number {
  return Date.parse(endedAt) - Date.parse(startedAt);
}

type Counts = Record<'scheduled' | 'ready' | 'leased' | 'dead', number>;

export async function counts({ service, started }: Room, queue: string): Promise<Counts> {
  const { status, body, text } = await service.client.get(`/v1/queues/${queue}/stats`);
  assert.equal(status, 200, text);
  const failed = started.find(({ child }) => child.exitCode !== null && child.exitCode !== 0);
  assert.equal(failed, undefined, `a worker has ended: ${failed?.output()}`);
  return body.counts;
}

export async function allEnd(room: Room, queue: string): Promise<void> {
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

export function open({ scheduled, ready, leased }: Counts): number {
  return scheduled + ready + leased;
}

/** A release is no attempt: what was handed back is tried again under the same number. */
export function assertFate(job: any, { state, outcomes, payload }: Expected): void {
  const spent = job.attempts.filter(({ outcome }: any) => outcome !== 'RELEASED');
  const seen = {
    payload: job.payload.do,
    state: job.state,
    outcomes: spent.map(({ outcome }: any) => outcome),
    attempt: job.attempt,
  };
  assert.deepEqual(seen, { payload: payload.do, state, outcomes, attempt: outcomes.length }, JSON.stringify(job));
}
