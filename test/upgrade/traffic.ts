import { setTimeout as pause } from 'node:timers/promises';
import type { Balancer, Reply } from './balancer.js';
import { type Job, type Results, StreamWorker } from './stream-worker.js';

/** What the clients were told; jobs by their ids. */
export interface Book {
  readonly accepted: Set<string>;
  /** How often each was handed out. */
  readonly leased: Map<string, number>;
  /** How often each ack was answered with OK. */
  readonly acked: Map<string, number>;
  /** Answers that are none of these. */
  readonly unexpected: string[];
  /** Notices to go that streams were given. */
  drained: number;
}

export interface Traffic {
  readonly book: Book;
  /** No more jobs; resolves when all accepted are acked, or when nothing has moved on for 10 s. */
  finish(): Promise<void>;
}

const QUEUES = ['mail', 'bills', 'media'] as const;
const PRODUCER_PAUSE_MS = 25;
const IDLE_MS = 10_000;
/** Long enough that no lease runs out: a job that is handed out twice was handed out twice. */
const VISIBILITY = 120;

interface Parts {
  readonly balancer: Balancer;
  readonly book: Book;
  /** Whether the producers go on, and the workers. */
  readonly on: { producing: boolean; working: boolean };
}

/** Producers and workers of all kinds: REST with kept connections and long polls, gRPC calls, worker streams. */
export function startTraffic(balancer: Balancer): Traffic {
  const book: Book = { accepted: new Set(), leased: new Map(), acked: new Map(), unexpected: [], drained: 0 };
  const on = { producing: true, working: true };
  const parts = { balancer, book, on };
  const producers = Promise.all([produce(parts), produce(parts), produceByGrpc(parts), produceBatches(parts)]);
  const workers = Promise.all([
    ...Array.from({ length: 4 }, () => work(parts)),
    ...Array.from({ length: 2 }, () => workByGrpc(parts)),
    ...Array.from({ length: 3 }, () => workByStream(parts)),
  ]);
  return {
    book,
    finish: async () => {
      on.producing = false;
      await producers;
      await untilAcked(book);
      on.working = false;
      await workers;
    },
  };
}

async function untilAcked({ accepted, acked }: Book): Promise<void> {
  for (let [moved, last] = [performance.now(), -1]; acked.size < accepted.size; await pause(20)) {
    if (acked.size !== last) [moved, last] = [performance.now(), acked.size];
    if (performance.now() - moved > IDLE_MS) return;
  }
}

async function produce({ balancer, book, on }: Parts): Promise<void> {
  for (let turn = 0; on.producing; turn += 1) {
    const reply = await balancer.post(`/v1/queues/${QUEUES[turn % 3]!}/jobs`, { payload: { turn } });
    if (expected(book, reply, 201)) book.accepted.add(reply.body.id as string);
    await pause(PRODUCER_PAUSE_MS);
  }
}

async function produceBatches({ balancer, book, on }: Parts): Promise<void> {
  while (on.producing) {
    const jobs = QUEUES.map((queue) => ({ queue, payload: 'batch', delay: '200ms' }));
    const reply = await balancer.post('/v1/jobs/batch', { jobs });
    if (expected(book, reply, 201)) for (const { id } of reply.body.jobs) book.accepted.add(id as string);
    await pause(PRODUCER_PAUSE_MS * 4);
  }
}

async function produceByGrpc({ balancer, book, on }: Parts): Promise<void> {
  while (on.producing) {
    const answer = await balancer.call('Enqueue', { queue: QUEUES[0] });
    if (answer !== undefined) book.accepted.add(answer.id as string);
    await pause(PRODUCER_PAUSE_MS);
  }
}

async function work({ balancer, book, on }: Parts): Promise<void> {
  const call = {
    queues: QUEUES.map((name) => ({ name })),
    maxJobs: 5,
    wait: '2s',
    visibilityTimeout: `${VISIBILITY}s`,
  };
  while (on.working) {
    const reply = await balancer.post('/v1/lease', on.producing ? call : { ...call, wait: '200ms' });
    if (!expected(book, reply, 200)) continue;
    const { jobs } = reply.body;
    leased(book, jobs);
    if (jobs.length === 0) continue;
    const items = jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken }));
    for (const [path, tell] of [
      ['/v1/leases/heartbeat', heartbeaten],
      ['/v1/leases/ack', acked],
    ] as const) {
      const settled = await balancer.post(path, { items });
      if (expected(book, settled, 200)) tell(book, jobs, settled.body.results);
    }
  }
}

async function workByGrpc({ balancer, book, on }: Parts): Promise<void> {
  const message = { queues: QUEUES.map((name) => ({ name })), maxJobs: 5, visibilityTimeout: { seconds: VISIBILITY } };
  while (on.working) {
    const answer = await balancer.call('Lease', { ...message, wait: { seconds: on.producing ? 2 : 0 } });
    const jobs = answer?.jobs ?? [];
    leased(book, jobs);
    if (jobs.length === 0) continue;
    const settled = await balancer.call('Ack', {
      items: jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken })),
    });
    if (settled !== undefined) acked(book, jobs, settled.results);
  }
}

/** A stream at a time: until it is told to go, then one to another instance. */
async function workByStream({ balancer, book, on }: Parts): Promise<void> {
  const hello = { queues: QUEUES.map((name) => ({ name })), credits: 10, visibilityTimeout: { seconds: VISIBILITY } };
  while (on.working) {
    const worker = new StreamWorker(balancer.channel(await balancer.pick()), hello);
    const outcome = await worker.run(() => on.working);
    for (const { jobs, results } of outcome.settled) {
      leased(book, jobs);
      acked(book, jobs, results);
    }
    // What came when the worker had ended its side: it settles that by a call.
    if (outcome.late.length > 0) {
      leased(book, outcome.late);
      const settled = await balancer.call('Ack', { items: outcome.late.map(({ leaseToken }) => ({ leaseToken })) });
      if (settled !== undefined) acked(book, outcome.late, settled.results);
    }
    if (outcome.drained) book.drained += 1;
    if (outcome.fault !== undefined) book.unexpected.push(outcome.fault);
  }
}

function expected(book: Book, reply: Reply | undefined, status: number): reply is Reply {
  if (reply?.status === status) return true;
  // A failure is in the balancer's list.
  if (reply !== undefined) book.unexpected.push(`${reply.status}: ${JSON.stringify(reply.body)}`);
  return false;
}

function leased(book: Book, jobs: readonly Job[]): void {
  for (const { id } of jobs) book.leased.set(id, (book.leased.get(id) ?? 0) + 1);
}

/** Over gRPC an outcome bears the name of its type. */
function outcomeAt(results: Results, index: number): string {
  return results[index]?.outcome.replace('SETTLE_OUTCOME_', '') ?? 'none';
}

function acked(book: Book, jobs: readonly Job[], results: Results): void {
  for (const [index, { id }] of jobs.entries()) {
    const outcome = outcomeAt(results, index);
    if (outcome === 'OK') book.acked.set(id, (book.acked.get(id) ?? 0) + 1);
    else book.unexpected.push(`the ack of ${id}: ${outcome}`);
  }
}

function heartbeaten(book: Book, jobs: readonly Job[], results: Results): void {
  for (const [index, { id }] of jobs.entries()) {
    const outcome = outcomeAt(results, index);
    if (outcome !== 'OK') book.unexpected.push(`the heartbeat of ${id}: ${outcome}`);
  }
}
