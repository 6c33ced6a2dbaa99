import { setTimeout as pause } from 'node:timers/promises';
import { startActor } from './actor.js';
import { now, type SeenLease } from './journal.js';
import { BOUNDED, QUEUES, STORMY } from './queues.js';
import { Settler } from './settling.js';
import { microseconds } from './timestamp.js';

const LOOPS = 2;
/** Chunks in hand at a time; with more, nothing further is leased until one is done. */
const MOST_KEPT = 6;

/** What becomes of a chunk of leased jobs. */
const MANNERS = { ack: 68, nack: 5, release: 5, beat: 6, late: 5, abandon: 2, deaf: 4, mixed: 5 } as const;

/** How often a loop leases only to nack, or ack, all of it in one call; and how much. */
const BURSTS = 0.02;
const BURST = 100;

/** Of the queue whose jobs fail in bursts nothing is leased otherwise until all is calm, so that bursts are large. */
const STEADY = Object.keys(QUEUES).filter((name) => name !== STORMY);
/** Most leases leave out the queue with a bound, so that not every claim has to wait for its lock, nor every worker for its jobs. */
const PLAIN = STEADY.filter((name) => name !== BOUNDED);

const actor = startActor();
const settler = new Settler(actor);
const { random, client, journal } = actor;
const kept = new Set<Promise<void>>();
await Promise.all(Array.from({ length: LOOPS }, () => work()));
await Promise.all(kept);
process.exit(0);

async function work(): Promise<void> {
  while (!actor.isStopping()) {
    if (!actor.isCalm() && random.chance(BURSTS)) await burst();
    const timeout = random.between(2, 5);
    const jobs = await lease(...ordinary(timeout));
    for (const chunk of chunksOf(jobs)) {
      const done = treat(chunk, timeout);
      if (done === undefined) continue;
      kept.add(done);
      void done.finally(() => kept.delete(done));
    }
    while (kept.size > MOST_KEPT) await Promise.race(kept);
    if (jobs.length === 0) await pause(20);
  }
}

type LeaseCall = [path: string, body: Readonly<Record<string, unknown>>, wait: number];

function ordinary(timeout: number): LeaseCall {
  const wait = random.between(0, 2_000);
  const call = { maxJobs: random.pick([1, 5, 20, 50, 50]), visibilityTimeout: `${timeout}s` };
  if (random.chance(0.3)) return [`/v1/queues/${random.pick(PLAIN)}/lease`, call, wait];
  const names = actor.isCalm() ? Object.keys(QUEUES) : random.chance(0.2) ? STEADY : PLAIN;
  return ['/v1/lease', { ...call, queues: names.map((name) => ({ name })) }, wait];
}

async function burst(): Promise<void> {
  const jobs = await lease(`/v1/queues/${STORMY}/lease`, { maxJobs: BURST, visibilityTimeout: '5s' }, 0);
  const verb = random.chance(0.8) ? 'nack' : 'ack';
  if (jobs.length > 0) await settler.settle(jobs, () => verb);
}

async function lease(...[path, call, wait]: LeaseCall): Promise<SeenLease[]> {
  const begun = now();
  const body = { ...call, wait: `${wait}ms`, worker: actor.orders.name };
  const reply = await client.post(path, body, { patience: wait + 4_000 });
  if (reply.status !== 200) {
    await pause(random.between(50, 300));
    return [];
  }
  const { jobs } = reply.body as {
    jobs: { id: string; leaseToken: string; leaseEpoch: number; leaseExpiresAt: string }[];
  };
  const seen = jobs.map(({ id, leaseToken, leaseEpoch, leaseExpiresAt }) => {
    return { id, token: leaseToken, epoch: leaseEpoch, expiresAt: microseconds(leaseExpiresAt) };
  });
  if (seen.length > 0) journal.write({ type: 'leased', begun, at: now(), jobs: seen });
  return seen;
}

function chunksOf(jobs: readonly SeenLease[]): SeenLease[][] {
  const chunks: SeenLease[][] = [];
  for (let from = 0; from < jobs.length;) {
    const size = random.between(1, Math.max(1, jobs.length - from));
    chunks.push(jobs.slice(from, from + size));
    from += size;
  }
  return chunks;
}

/** Undefined for jobs that are left to expire. */
function treat(jobs: readonly SeenLease[], timeout: number): Promise<void> | undefined {
  const manner = actor.isCalm() ? 'ack' : random.weighted(MANNERS);
  switch (manner) {
    case 'abandon':
      return undefined;
    case 'late':
      return pause(timeout * 1_000 + random.between(-300, 1_500)).then(() => settler.settle(jobs, () => 'ack'));
    case 'beat':
      return beat(jobs, timeout);
    case 'deaf':
      return deaf(jobs);
    case 'mixed':
      return settler.settle(jobs, () => random.pick(['ack', 'ack', 'nack', 'release', 'heartbeat']));
    case 'ack':
    case 'nack':
    case 'release':
      return settler.settle(jobs, () => manner);
  }
}

async function beat(jobs: readonly SeenLease[], timeout: number): Promise<void> {
  for (let beats = random.between(1, 3); beats > 0 && !actor.isCalm(); beats -= 1) {
    await settler.settle(jobs, () => 'heartbeat');
    await pause(timeout * random.between(200, 700));
  }
  await settler.settle(jobs, () => 'ack');
}

/** Does not wait for the answer to its ack, and asks again. */
async function deaf(jobs: readonly SeenLease[]): Promise<void> {
  await settler.ackUnheard(jobs, random.between(1, 30));
  await settler.settle(jobs, () => 'ack');
}
