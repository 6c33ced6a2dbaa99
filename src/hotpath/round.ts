import { randomFillSync } from 'node:crypto';
import type { Expectations } from './expectations.js';
import type { Start } from './lanes.js';
import type { Waiter } from './waiter.js';

/**
 * One claim: what is asked for, for whom. Each queue has a stretch of slots, one a row it may give; slot `offset + n` (from 1)
 * says who gets the queue's n-th row and how much that waiter prefers this queue. A waiter may have slots in several queues;
 * the statement gives it no more than it wants, in the order of its preference.
 */
export interface Round {
  readonly waiters: readonly Waiter[];
  readonly queues: readonly RoundQueue[];
  /** By slot: index of the waiter (from 0), and its preference of the queue (0 first). */
  readonly slotWaiter: readonly number[];
  readonly slotPreference: readonly number[];
  readonly leaseIds: readonly string[];
  /** Waiters that could not be given slots in all of their queues: they look again if they got nothing. */
  readonly partial: ReadonlySet<number>;
  readonly version: number;
  /** Those of the queues that have a bound on their leases, sorted. */
  readonly limited: readonly number[];
}

export interface RoundQueue {
  readonly queueId: number;
  readonly offset: number;
  readonly limit: number;
  readonly waiters: readonly number[];
  readonly start: Start;
}

const MOST_SLOTS = 2_000;

/**
 * Takes those that can be served now, a tenant at a time in turn, those that have waited longest first. Of those that are parked
 * only as many as the queue is likely to have jobs for; whoever has to look is always taken. At most `most` of them.
 */
export function planRound(parked: ReadonlySet<Waiter>, expectations: Expectations, most = Infinity): Round {
  const asks = new Map<number, Ask[]>();
  const waiters: Waiter[] = [];
  const partial = new Set<number>();
  let slots = 0;
  for (const waiter of inTurn(parked)) {
    const candidates = [...waiter.queues].filter(
      ([id]) => waiter.mustLook || (asks.get(id)?.length ?? 0) < expectations.appetiteFor(id),
    );
    if (candidates.length === 0) continue;
    const index = waiters.push(waiter) - 1;
    const rows = waiter.request.maxJobs;
    for (const [preference, queueId] of byWeight(candidates).entries()) {
      if (slots + rows > MOST_SLOTS && preference > 0) {
        partial.add(index);
        break;
      }
      slots += rows;
      const ask = { waiter: index, preference, rows };
      const sofar = asks.get(queueId);
      if (sofar === undefined) asks.set(queueId, [ask]);
      else sofar.push(ask);
    }
    if (slots >= MOST_SLOTS || waiters.length >= most) break;
  }
  const limited = [...asks.keys()].filter((id) => expectations.isLimited(id)).sort((a, b) => a - b);
  return { waiters, ...layOut(asks, expectations), partial, version: expectations.flags.version, limited };
}

interface Ask {
  readonly waiter: number;
  readonly preference: number;
  readonly rows: number;
}

function layOut(asks: ReadonlyMap<number, readonly Ask[]>, expectations: Expectations) {
  const queues: RoundQueue[] = [];
  const slotWaiter: number[] = [];
  const slotPreference: number[] = [];
  for (const [queueId, asked] of [...asks].sort(([a], [b]) => a - b)) {
    const offset = slotWaiter.length;
    for (const { waiter, preference, rows } of asked) {
      for (let row = 0; row < rows; row += 1) {
        slotWaiter.push(waiter);
        slotPreference.push(preference);
      }
    }
    queues.push({
      queueId,
      offset,
      limit: slotWaiter.length - offset,
      waiters: [...new Set(asked.map((ask) => ask.waiter))],
      start: expectations.start(queueId),
    });
  }
  const leaseIds = Array.from(randomFillSync(new BigInt64Array(slotWaiter.length)), String);
  return { queues, slotWaiter, slotPreference, leaseIds };
}

/** One of each tenant in turn. */
function* inTurn(parked: ReadonlySet<Waiter>): Generator<Waiter> {
  const lines = new Map<string, Waiter[]>();
  for (const waiter of parked) {
    if (waiter.busy) continue;
    const line = lines.get(waiter.request.tenantId);
    if (line === undefined) lines.set(waiter.request.tenantId, [waiter]);
    else line.push(waiter);
  }
  const longest = Math.max(0, ...[...lines.values()].map((line) => line.length));
  for (let place = 0; place < longest; place += 1) {
    for (const line of lines.values()) {
      const waiter = line[place];
      if (waiter !== undefined) yield waiter;
    }
  }
}

/**
 * A random order in which a queue of weight w comes before one of weight v with probability w / (w + v)
 * (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
 */
function byWeight(queues: readonly (readonly [number, { readonly weight: number }])[]): number[] {
  if (queues.length === 1) return [queues[0]![0]];
  return queues
    .map(([id, { weight }]) => ({ id, key: -Math.log(1 - Math.random()) / weight }))
    .sort((a, b) => a.key - b.key)
    .map(({ id }) => id);
}
