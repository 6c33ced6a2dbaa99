/** Enqueues many jobs fast: node dist/examples/enqueue.js [--count 10000] [--queue mail] [--ms 20] … (see examples/README.md) */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:8080' },
    'key-file': { type: 'string', default: '.stint/default-key' },
    queue: { type: 'string', default: 'mail' },
    count: { type: 'string', default: '10000' },
    ms: { type: 'string', default: '20' },
  },
});
const headers = {
  authorization: `Bearer ${readFileSync(options['key-file'], 'utf8').trim()}`,
  'content-type': 'application/json',
};
const BATCH = 500;
const AT_ONCE = 4;
const count = Number(options.count);
const name = randomUUID();
const started = performance.now();
let next = 0;

/** A job of its own key: a batch whose answer was lost can be sent again, and each job is made once. */
function jobOf(number: number) {
  return {
    queue: options.queue,
    kind: 'example',
    payload: { number, ms: Number(options.ms) },
    idempotencyKey: `${name}-${number}`,
  };
}

async function send(body: string): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      const response = await fetch(`${options.url}/v1/jobs/batch`, { method: 'POST', headers, body });
      const text = await response.text();
      if (response.ok) return;
      if (response.status !== 429 && response.status < 500) throw new Error(text);
    } catch (error) {
      // Fetch tells of a lost or refused connection by a TypeError.
      if (!(error instanceof TypeError)) throw error;
    }
    await pause(Math.min(5_000, 100 * 2 ** failures) * (0.5 + Math.random() / 2));
  }
}

async function lane(): Promise<void> {
  while (next < count) {
    const first = next;
    next = Math.min(count, next + BATCH);
    await send(JSON.stringify({ jobs: Array.from({ length: next - first }, (_, index) => jobOf(first + index)) }));
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, lane));
const seconds = (performance.now() - started) / 1_000;
process.stdout.write(`enqueued ${count} jobs in ${seconds.toFixed(2)} s (${Math.round(count / seconds)} a second)\n`);
