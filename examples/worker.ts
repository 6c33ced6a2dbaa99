/** A worker without dependencies: node dist/examples/worker.js --queue mail --concurrency 10 (see examples/README.md) */
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

type Job = { id: string; payload?: unknown; leaseToken: string };
type Beats = { results: { outcome: string; cancelRequested?: boolean }[] };
type Settle = { acks?: unknown[]; nacks?: unknown[]; releases?: unknown[] };

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:8080' },
    'key-file': { type: 'string', default: '.stint/default-key' },
    queue: { type: 'string', default: 'mail' },
    concurrency: { type: 'string', default: '10' },
    'visibility-seconds': { type: 'string', default: '30' },
    'work-ms': { type: 'string', default: '20' },
  },
});
const key = readFileSync(options['key-file'], 'utf8').trim();
const beatMs = Math.floor((Number(options['visibility-seconds']) * 1_000) / 3);
const worker = `example-${process.pid}`;
const stop = new AbortController();
const cut = new AbortController();
const running = new Map<string, AbortController>();
let acked = 0;
const report = (): unknown => process.stdout.write(`${JSON.stringify({ acked, running: running.size })}\n`);

/** Put your work here. Stop when `signal` aborts: the lease is lost, the job is cancelled, or this worker is ending. */
async function work(_job: Job, signal: AbortSignal): Promise<unknown> {
  await pause(Number(options['work-ms']), undefined, { signal });
  return { by: worker };
}

/** Leases one job after the other; how the last one ended rides in the request for the next. */
async function slot(): Promise<Settle> {
  let settle: Settle = {};
  while (!stop.signal.aborted) {
    const lease = { wait: '30s', visibilityTimeout: `${options['visibility-seconds']}s`, worker, settle };
    const answer = await call<{ jobs: Job[] }>(`/v1/queues/${options.queue}/lease`, lease, cut.signal);
    if (answer !== undefined) settle = answer.jobs[0] === undefined ? {} : await run(answer.jobs[0]);
  }
  return settle;
}

async function run(job: Job): Promise<Settle> {
  const { leaseToken } = job;
  const own = new AbortController();
  running.set(leaseToken, own);
  try {
    const result = await work(job, AbortSignal.any([own.signal, stop.signal]));
    acked += 1;
    return { acks: [{ leaseToken, result }] };
  } catch (error) {
    if (own.signal.aborted && own.signal.reason !== 'OK') return {};
    if (stop.signal.aborted) return { releases: [{ leaseToken }] };
    return { nacks: [{ leaseToken, error: { message: String(error) } }] };
  } finally {
    running.delete(leaseToken);
  }
}

async function heartbeat(): Promise<void> {
  const items = [...running.keys()].map((leaseToken) => ({ leaseToken }));
  if (items.length === 0) return;
  const answer = await call<Beats>('/v1/leases/heartbeat', { items }, AbortSignal.timeout(beatMs));
  answer?.results.forEach(({ outcome, cancelRequested }, index) => {
    if (outcome !== 'OK' || cancelRequested === true) running.get(items[index]!.leaseToken)?.abort(outcome);
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
      asked = Number(response.headers.get('retry-after') ?? 0) * 1_000;
      if (response.status !== 429 && response.status < 500) throw new Error(`${path}: ${await response.text()}`);
    } catch (error) {
      // Fetch tells of a lost or refused connection by a TypeError, of `until` and the 45 s by a DOMException.
      if (!(error instanceof TypeError || error instanceof DOMException)) throw error;
    }
    const milliseconds = Math.min(5_000, 100 * 2 ** failures) * (0.5 + Math.random() / 2);
    await pause(Math.max(asked, milliseconds), undefined, { signal: until }).catch(() => undefined);
  }
  return undefined;
}

// Work ends at once; calls get a second to be answered first, since a job whose answer is not read stays leased.
stop.signal.onabort = () => void setTimeout(() => cut.abort(), 1_000).unref();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
setInterval(() => void heartbeat(), beatMs).unref();
setInterval(report, 1_000).unref();
const left = await Promise.all(Array.from({ length: Number(options.concurrency) }, slot));
// Acks of which no answer came are sent again, which changes nothing; what was not finished goes back at once.
const all = (verb: keyof Settle): unknown[] => left.flatMap((settle) => settle[verb] ?? []);
const body = { acks: all('acks'), nacks: all('nacks'), releases: all('releases') };
await call('/v1/leases/settle', body, AbortSignal.timeout(5_000));
report();
