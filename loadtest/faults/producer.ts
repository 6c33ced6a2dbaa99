import { setTimeout as pause } from 'node:timers/promises';
import { type Actor, startActor } from './actor.js';
import { now } from './journal.js';
import { SHARES } from './queues.js';

const MOST = 120;
const RETRY_MS = 15_000;

interface NewJob {
  readonly idempotencyKey?: string;
  readonly payload: unknown;
  readonly delay?: string;
  readonly visibilityTimeout?: string;
}

const actor = startActor();
let calls = 0;
await offer(actor);
process.exit(0);

/** Offers all its jobs, evenly over its time; what a fault held up is made up for in larger batches. */
async function offer({ orders, random, isStopping }: Actor): Promise<void> {
  const started = now();
  for (let offered = 0; offered < orders.jobs && !isStopping();) {
    const due = Math.min(orders.jobs, ((now() - started) / 1_000_000 / orders.seconds) * orders.jobs);
    if (offered >= due) {
      await pause(10 + random.between(0, 30));
      continue;
    }
    const size = random.chance(0.1) ? 1 : Math.min(orders.jobs - offered, random.between(5, MOST));
    await enqueue(Array.from({ length: size }, (_, index) => newJob(offered + index)));
    offered += size;
  }
}

function newJob(number: number): NewJob {
  const { random, orders } = actor;
  return {
    payload: { from: orders.name, number, text: 'x'.repeat(random.between(0, 200)) },
    ...(random.chance(0.15) ? { idempotencyKey: `${orders.name}-${number}` } : {}),
    ...(random.chance(0.1) ? { delay: `${random.between(50, 3_000)}ms` } : {}),
  };
}

/** What was not answered with a success is offered again as it is when all of it bears keys, once more; what has none might be doubled. */
async function enqueue(jobs: readonly NewJob[]): Promise<void> {
  const queue = actor.random.weighted(SHARES);
  const keyed = jobs.filter(({ idempotencyKey }) => idempotencyKey !== undefined);
  const status = await send(queue, jobs);
  const answered = status >= 200 && status < 300;
  if (answered && !actor.random.chance(0.05)) return;
  if (keyed.length === 0) return;
  for (const deadline = now() + RETRY_MS * 1_000; now() < deadline && !actor.isStopping();) {
    const again = await send(queue, keyed);
    if (again >= 200 && again < 300) return;
    await pause(100 + actor.random.between(0, 400));
  }
}

async function send(queue: string, jobs: readonly NewJob[]): Promise<number> {
  const { journal, client } = actor;
  const call = (calls += 1);
  journal.write({ type: 'enqueue', call, at: now(), queue, keys: jobs.map((job) => job.idempotencyKey ?? null) });
  const single = jobs.length === 1;
  const { status, body } = single
    ? await client.post(`/v1/queues/${queue}/jobs`, jobs[0])
    : await client.post('/v1/jobs/batch', { jobs: jobs.map((job) => ({ queue, ...job })) });
  if (status >= 200 && status < 300) {
    const made = single ? [body as { id: string }] : (body as { jobs: { id: string }[] }).jobs;
    journal.write({ type: 'enqueued', call, at: now(), status, ids: made.map(({ id }) => id) });
  }
  return status;
}
