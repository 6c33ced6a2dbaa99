import { setTimeout as pause } from 'node:timers/promises';
import { startActor } from './actor.js';
import { Client } from './client.js';
import { now } from './journal.js';

const PARK_S = 20;
const LOOK_S = 3;
const EVERY_MS = 300;
/** Until a long poll that was just sent hangs at its service. */
const PARKED_MS = 150;

const { orders, journal, random, isStopping } = startActor();
const clients = orders.bases.map((base) => new Client({ bases: [base], key: orders.key, first: 0, journal }));
const stopped = new AbortController();
const parked = Promise.all(clients.map((client, index) => park(client, 'AB'[index]!)));
const PROBES = [released, gone, visible];
for (let round = 0; !isStopping(); round += 1) {
  const [client, other] = random.shuffled([clients[0]!, clients[1]!]);
  await PROBES[round % PROBES.length]!(client!, other!);
  await pause(EVERY_MS);
}
stopped.abort();
await parked;
process.exit(0);

/** A long poll always hangs at each service, so that one hangs there when it shuts down. */
async function park(client: Client, service: string): Promise<void> {
  while (!isStopping()) {
    const begun = now();
    const call = { wait: `${PARK_S}s` };
    const options = { patience: (PARK_S + 5) * 1_000, signal: stopped.signal };
    const { status } = await client.post('/v1/queues/probe-parked/lease', call, options);
    journal.write({ type: 'probe', promise: `parked-${service}`, begun, at: now(), answered: status === 200 });
    await pause(100);
  }
}

/** A job that is released can be leased again at once, at either service. */
async function released(client: Client, other: Client): Promise<void> {
  await clear(client, 'probe-release');
  const id = await enqueue(client, 'probe-release');
  if (id === undefined) return;
  const job = await lease(client, 'probe-release');
  if (job === undefined) return;
  if ((await client.post('/v1/leases/release', { items: [{ leaseToken: job.leaseToken }] })).status !== 200) return;
  await measure('release', { id: job.id, began: now(), leasing: lease(other, 'probe-release') });
}

/** A job that came for a caller who is gone is given to the next. */
async function gone(client: Client, other: Client): Promise<void> {
  await clear(client, 'probe-gone');
  const leaving = new AbortController();
  const left = client.post('/v1/queues/probe-gone/lease', { wait: '10s' }, { signal: leaving.signal });
  await pause(PARKED_MS);
  leaving.abort();
  await left;
  const id = await enqueue(client, 'probe-gone');
  if (id === undefined) return;
  await measure('gone', { id, began: now(), leasing: lease(other, 'probe-gone') });
}

/** A job that is enqueued at one service is given to who waits for it at the other. */
async function visible(client: Client, other: Client): Promise<void> {
  await clear(client, 'probe-visible');
  const leasing = lease(other, 'probe-visible');
  await pause(PARKED_MS);
  const id = await enqueue(client, 'probe-visible');
  if (id === undefined) return;
  await measure('visible', { id, began: now(), leasing });
}

interface Measured {
  readonly id: string;
  readonly began: number;
  readonly leasing: Promise<Leased | undefined>;
}

/** Another job than the one that was meant, left by a probe that a fault cut short, measures nothing. */
async function measure(promise: string, { id, began, leasing }: Measured): Promise<void> {
  const job = await leasing;
  const entry = { type: 'probe', promise, begun: began, at: now(), answered: job !== undefined } as const;
  if (job === undefined || job.id === id) journal.write(entry);
  if (job !== undefined) await ack(clients[0]!, job);
}

/** Does away with what a probe that a fault cut short has left. */
async function clear(client: Client, queue: string): Promise<void> {
  for (let job = await lease(client, queue, 0); job !== undefined; job = await lease(client, queue, 0)) {
    await ack(client, job);
  }
}

async function ack(client: Client, { leaseToken }: Leased): Promise<void> {
  await client.post('/v1/leases/ack', { items: [{ leaseToken }] });
}

async function enqueue(client: Client, queue: string): Promise<string | undefined> {
  const reply = await client.post(`/v1/queues/${queue}/jobs`, {});
  return reply.status === 201 ? (reply.body as { id: string }).id : undefined;
}

interface Leased {
  readonly id: string;
  readonly leaseToken: string;
}

async function lease(client: Client, queue: string, seconds = LOOK_S): Promise<Leased | undefined> {
  const reply = await client.post(`/v1/queues/${queue}/lease`, { wait: `${seconds}s` });
  return reply.status === 200 ? (reply.body as { jobs: Leased[] }).jobs[0] : undefined;
}
