import { open, readdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { startActor } from './actor.js';
import type { Call } from './client.js';
import { type Entry, now, type SeenLease } from './journal.js';

const EVERY_MS = 25;
/** The end of a journal in which leases are looked for, so that most of them are still running. */
const TAIL_BYTES = 32_768;
const VERBS = ['ack', 'nack', 'release', 'heartbeat'] as const;

const actor = startActor({ expected: 404 });
const { random, client, journal } = actor;
while (!actor.isStopping()) {
  const lease = await found();
  if (lease !== undefined) await intrude(lease);
  await pause(EVERY_MS);
}
process.exit(0);

/** One of the last leases that a worker of the other tenant was told of. */
async function found(): Promise<SeenLease | undefined> {
  const directory = path.dirname(actor.orders.journal);
  const files = (await readdir(directory)).filter((name) => name.startsWith('worker-')).sort();
  if (files.length === 0) return undefined;
  const lines = (await tailOf(path.join(directory, random.pick(files)))).split('\n').slice(1, -1);
  const leases = lines.flatMap((line) => {
    const entry = JSON.parse(line) as Entry;
    return entry.type === 'leased' ? entry.jobs : [];
  });
  return leases.length === 0 ? undefined : random.pick(leases);
}

async function tailOf(name: string): Promise<string> {
  const file = await open(name);
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.toString('utf8', 0, bytesRead);
  } finally {
    await file.close();
  }
}

async function intrude({ id, token }: SeenLease): Promise<void> {
  const call = callOn(id, token);
  const { status, body } = await client.send(call);
  const asked = `${call.method} ${call.path}`;
  journal.write({ type: 'intrusion', at: now(), id, asked, status, told: status === 0 ? [] : told(body) });
}

/** Everything that can be asked of a job whose id, or lease whose token, is known. */
function callOn(id: string, leaseToken: string): Call {
  const job = `/v1/jobs/${id}`;
  const verb = random.pick(VERBS);
  return random.pick<Call>([
    { method: 'GET', path: job },
    { method: 'POST', path: `${job}/cancel`, body: { force: random.chance(0.5) } },
    { method: 'PATCH', path: job, body: { priority: 9 } },
    { method: 'POST', path: `${job}/${verb}`, body: { leaseToken } },
    { method: 'POST', path: `/v1/leases/${verb}`, body: { items: [{ leaseToken }] } },
    { method: 'POST', path: '/v1/leases/settle', body: { [`${verb}s`]: [{ leaseToken }] } },
  ]);
}

/** The code of a problem, or the outcome of each item. */
function told(body: unknown): string[] {
  const { code, ...lists } = body as Readonly<Record<string, unknown>>;
  if (typeof code === 'string') return [code];
  return Object.values(lists).flatMap((list) => {
    return Array.isArray(list) ? (list as { outcome?: string }[]).map(({ outcome }) => outcome ?? 'no outcome') : [];
  });
}
