/** A worker over HTTP, without dependencies: node dist/examples/worker-node/worker.js --queue mail --concurrency 10 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { handle, type Job, leaseMs } from './handler.js';

type Running = { stop: AbortController; beatMs: number; due: number; lost: boolean };
type Beats = { results: { outcome: string; cancelRequested?: boolean }[] };
type Settle = { acks?: unknown[]; nacks?: unknown[]; releases?: unknown[] };

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:8080' },
    'key-file': { type: 'string', default: '.stint/default-key' },
    queue: { type: 'string', default: 'mail' },
    worker: { type: 'string', default: `${hostname()}-${process.pid}` },
    concurrency: { type: 'string', default: '10' },
    'visibility-seconds': { type: 'string' },
  },
});
const key = readFileSync(options['key-file'], 'utf8').trim();
const seconds = options['visibility-seconds'];
/** Below a third of the shortest lease there is. */
const TICK_MS = 250;
const stop = new AbortController();
const cut = new AbortController();
const running = new Map<string, Running>();
let acks = 0;
const ending = (): boolean => stop.signal.aborted;
const report = (): unknown => process.stdout.write(`${JSON.stringify({ acks, running: running.size })}\n`);

/** Leases one job after the other; how the last one ended rides in the request for the next. */
async function slot(): Promise<Settle> {
  const lease = { wait: '30s', worker: options.worker, ...(seconds && { visibilityTimeout: `${seconds}s` }) };
  let settle: Settle = {};
  while (!ending()) {
    const answer = await call<{ jobs: Job[] }>(`/v1/queues/${options.queue}/lease`, { ...lease, settle }, cut.signal);
    if (answer !== undefined) settle = answer.jobs[0] === undefined ? {} : await run(answer.jobs[0]);
  }
  return settle;
}

async function run(job: Job): Promise<Settle> {
  const { leaseToken } = job;
  if (ending()) return { releases: [{ leaseToken }] };
  const beatMs = leaseMs(job) / 3;
  const own: Running = { stop: new AbortController(), beatMs, due: performance.now() + beatMs, lost: false };
  running.set(leaseToken, own);
  try {
    const result = await handle(job, AbortSignal.any([own.stop.signal, stop.signal]));
    acks += 1;
    return { acks: [{ leaseToken, result }] };
  } catch (error) {
    if (own.lost) return {};
    if (ending()) return { releases: [{ leaseToken }] };
    const { message, name: type } = error instanceof Error ? error : new Error(String(error));
    return { nacks: [{ leaseToken, error: { message, type } }] };
  } finally {
    running.delete(leaseToken);
  }
}

/** All that are due in one call. */
async function heartbeat(): Promise<void> {
  const now = performance.now();
  const due = [...running].filter(([, job]) => job.due <= now);
  if (due.length === 0) return;
  for (const [, job] of due) job.due = now + job.beatMs;
  const items = due.map(([leaseToken]) => ({ leaseToken }));
  const until = AbortSignal.timeout(Math.ceil(Math.min(...due.map(([, { beatMs }]) => beatMs))));
  const answer = await call<Beats>('/v1/leases/heartbeat', { items }, until);
  answer?.results.forEach(({ outcome, cancelRequested }, index) => {
    const job = due[index]![1];
    job.lost = outcome !== 'OK';
    if (job.lost || cancelRequested === true) job.stop.abort();
  });
}

/** Tries again until `until` aborts, for as long as the service is away or says 429 or 5xx; undefined when it gave up. */
async function call<T>(path: string, body: unknown, until: AbortSignal): Promise<T | undefined> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify(body) };
  for (let failures = 0; !until.aborted; failures += 1) {
    let asked = 0;
    try {
      const signal = AbortSignal.any([until, AbortSignal.timeout(45_000)]);
      const response = await fetch(options.url + path, { ...request, signal });
      if (response.ok) return (await response.json()) as T;
      asked = (Number(response.headers.get('retry-after')) || 0) * 1_000;
      if (response.status !== 429 && response.status < 500) throw new Error(`${path}: ${await response.text()}`);
    } catch (error) {
      // Fetch tells of a lost or refused connection by a TypeError, of `until` and the 45 s by a DOMException.
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    const jittered = Math.min(5_000, 100 * 2 ** failures) * (0.5 + Math.random() / 2);
    await pause(asked + jittered, undefined, { signal: until }).catch(() => undefined);
  }
  return undefined;
}

// Work ends at once; calls get a second to be answered first, since a job whose answer is not read stays leased.
stop.signal.onabort = () => void setTimeout(() => cut.abort(), 1_000).unref();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
setInterval(() => void heartbeat(), TICK_MS).unref();
setInterval(report, 1_000).unref();
const left = await Promise.all(Array.from({ length: Number(options.concurrency) }, slot));
// Acks of which no answer came are sent again, which changes nothing; what was not finished goes back at once.
const all = (verb: keyof Settle): unknown[] => left.flatMap((settle) => settle[verb] ?? []);
const body = { acks: all('acks'), nacks: all('nacks'), releases: all('releases') };
if (Object.values(body).some((items) => items.length > 0)) {
  await call('/v1/leases/settle', body, AbortSignal.timeout(5_000));
}
report();
