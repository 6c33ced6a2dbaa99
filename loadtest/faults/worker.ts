import { setTimeout as pause } from 'node:timers/promises';
import { startActor } from './actor.js';
import { now, type SeenLease, type SettleItem, type SettleOutcome, type Verb } from './journal.js';
import { QUEUES } from './queues.js';
import { microseconds } from './timestamp.js';

const LOOPS = 2;
/** Chunks in hand at a time; with more, nothing further is leased until one is done. */
const MOST_KEPT = 6;
const SETTLE_MS = 20_000;

/** What becomes of a chunk of leased jobs. */
const MANNERS = { ack: 68, nack: 5, release: 5, beat: 6, late: 5, abandon: 2, deaf: 4, mixed: 5 } as const;

const NAMES = Object.keys(QUEUES);
const actor = startActor();
const { random, client, journal } = actor;
const kept = new Set<Promise<void>>();
let calls = 0;
await Promise.all(Array.from({ length: LOOPS }, () => work()));
await Promise.all(kept);
process.exit(0);

async function work(): Promise<void> {
  while (!actor.isStopping()) {
    const timeout = random.between(2, 5);
    const jobs = await lease(timeout);
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

async function lease(timeout: number): Promise<SeenLease[]> {
  const wait = random.between(0, 2_000);
  const call = {
    maxJobs: random.pick([1, 5, 20, 50, 50]),
    wait: `${wait}ms`,
    visibilityTimeout: `${timeout}s`,
    worker: actor.orders.name,
  };
  const begun = now();
  const one = random.chance(0.3);
  const path = one ? `/v1/queues/${random.pick(NAMES)}/lease` : '/v1/lease';
  const body = one ? call : { ...call, queues: NAMES.map((name) => ({ name })) };
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
      return pause(timeout * 1_000 + random.between(-300, 1_500)).then(() => settle(jobs, () => 'ack'));
    case 'beat':
      return beat(jobs, timeout);
    case 'deaf':
      return deaf(jobs);
    case 'mixed':
      return settle(jobs, () => random.pick(['ack', 'ack', 'nack', 'release', 'heartbeat']));
    case 'ack':
    case 'nack':
    case 'release':
      return settle(jobs, () => manner);
  }
}

async function beat(jobs: readonly SeenLease[], timeout: number): Promise<void> {
  for (let beats = random.between(1, 3); beats > 0 && !actor.isCalm(); beats -= 1) {
    await settle(jobs, () => 'heartbeat');
    await pause(timeout * random.between(200, 700));
  }
  await settle(jobs, () => 'ack');
}

/** Does not wait for the answer to its ack, and asks again. */
async function deaf(jobs: readonly SeenLease[]): Promise<void> {
  const items = itemsOf(jobs, () => 'ack');
  await send(items, AbortSignal.timeout(random.between(1, 30)));
  await settle(jobs, () => 'ack');
}

/** Asks until it is answered. */
async function settle(jobs: readonly SeenLease[], verbOf: () => Verb): Promise<void> {
  const items = itemsOf(jobs, verbOf);
  for (const deadline = now() + SETTLE_MS * 1_000; now() < deadline;) {
    if (await send(items)) return;
    await pause(random.between(50, 400));
  }
}

function itemsOf(jobs: readonly SeenLease[], verbOf: () => Verb): SettleItem[] {
  return jobs.map(({ id, token, epoch }) => ({ verb: verbOf(), id, token, epoch }));
}

async function send(items: readonly SettleItem[], signal?: AbortSignal): Promise<boolean> {
  const call = (calls += 1);
  journal.write({ type: 'settle', call, at: now(), items: [...items] });
  const [path, body] = requestOf(items);
  const reply = await client.post(path, body, signal === undefined ? {} : { signal });
  if (reply.status !== 200) return false;
  journal.write({ type: 'settled', call, at: now(), outcomes: outcomesOf(items, reply.body as Answer) });
  return true;
}

interface Result extends SettleOutcome {
  readonly leaseExpiresAt?: string;
}
type Answer = { readonly results: Result[] } | Readonly<Record<`${Verb}s`, Result[]>>;

function requestOf(items: readonly SettleItem[]): [path: string, body: unknown] {
  const verbs = new Set(items.map(({ verb }) => verb));
  const [only] = verbs;
  if (verbs.size === 1) return [`/v1/leases/${only!}`, { items: items.map(({ token }) => ({ leaseToken: token })) }];
  const lists = (['ack', 'nack', 'release', 'heartbeat'] as const).map((verb) => [
    `${verb}s`,
    items.filter((item) => item.verb === verb).map(({ token }) => ({ leaseToken: token })),
  ]);
  return ['/v1/leases/settle', Object.fromEntries(lists)];
}

/** In the order of the items, whichever of the two forms the answer has. */
function outcomesOf(items: readonly SettleItem[], answer: Answer): SettleOutcome[] {
  const next = new Map<string, number>();
  return items.map(({ verb }) => {
    const place = next.get(verb) ?? 0;
    next.set(verb, place + 1);
    const { outcome, settledAs, leaseExpiresAt } =
      'results' in answer ? answer.results[place]! : answer[`${verb}s`][place]!;
    return {
      outcome,
      settledAs,
      expiresAt: leaseExpiresAt === undefined ? undefined : microseconds(leaseExpiresAt),
    };
  });
}
