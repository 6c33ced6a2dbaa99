import type {
  AttemptRow,
  BoundProbe,
  Delivery,
  Evidence,
  Intrusion,
  Settling,
} from '../../loadtest/faults/evidence.js';
import type { Verb } from '../../loadtest/faults/journal.js';
import { formatLeaseToken } from '../../src/jobs/lease-token.js';

export const SECOND = 1_000_000;
export const JOB = '01a22c5a-51e9-707f-8b8a-39ebc7471e4b';
export const OTHER = '01a22c5a-51e9-707f-8b8a-39ebc7471e4c';
/** An instant of the database's clock. */
export const DAY = 1_796_040_000 * SECOND;

/** Leased in epoch 1 until it expired, leased in epoch 2, acked. */
export function sound(): Evidence {
  return {
    offers: [{ source: 'producer-0', queue: 'orders', keys: [null], ids: [JOB] }],
    deliveries: [delivery(1), delivery(2)],
    settlings: [settling({ verb: 'ack', epoch: 2, begun: 12, outcome: 'OK' })],
    refusals: [{ source: 'worker-0', at: 1, path: '/v1/lease', status: 503, detail: 'UNAVAILABLE' }],
    probes: [{ promise: 'release', begun: 50 * SECOND, at: 50 * SECOND + 20_000, answered: true }],
    intrusions: [asked(404, ['NOT_FOUND'])],
    jobs: [acked()],
    attempts: [ended({ epoch: 1, outcome: 'expired', endedAt: delivery(1).expiresAt + 1_000 })],
    boundProbes: [looked({ live: [DAY, DAY + 1] }), looked({ seconds: 20, live: [DAY + SECOND] })],
    boundChanges: [{ at: DAY - 60 * SECOND, bound: 2 }],
    dues: [],
    windows: [],
    recovery: 10 * SECOND,
    promptly: SECOND,
  };
}

function acked(): Evidence['jobs'][number] {
  const outcome = { state: 'completed', ended: 'acked', startedAt: delivery(2).expiresAt - 5 * SECOND };
  return { id: JOB, queue: 'orders', epoch: 2, leaseId: '2', attempt: 2, key: null, ...outcome };
}

function ended(given: Pick<AttemptRow, 'epoch' | 'outcome' | 'endedAt'>): AttemptRow {
  const { epoch, endedAt } = given;
  return { id: JOB, leaseId: String(epoch), attempt: epoch, startedAt: endedAt - SECOND, ...given };
}

/** Two jobs wait, nobody has one, and there is room for two; so many seconds later. */
export function looked({ seconds = 0, ...given }: Partial<BoundProbe> & { readonly seconds?: number }): BoundProbe {
  return { at: (100 + seconds) * SECOND, clock: DAY + seconds * SECOND, live: [], waiting: 2, bound: 2, ...given };
}

export function asked(status: number, told: readonly string[]): Intrusion {
  return { at: 1, id: JOB, asked: 'POST /v1/leases/settle', status, told };
}

/** Nacked in its first two attempts, acked in the third, that many microseconds after the second nack; 200 ms were asked. */
export function nackedTwice({ waited }: { readonly waited: number }): Partial<Evidence> {
  const attempts = [1, 2].map((epoch) => ended({ epoch, outcome: 'nacked', endedAt: DAY + epoch * 5 * SECOND }));
  const startedAt = attempts[1]!.endedAt + waited;
  return {
    attempts,
    jobs: [{ ...acked(), epoch: 3, leaseId: '3', attempt: 3, startedAt }],
    settlings: [
      ...[1, 2].map((epoch) => settling({ verb: 'nack', epoch, begun: epoch * 5, outcome: 'OK' })),
      settling({ verb: 'ack', epoch: 3, begun: 20, outcome: 'OK' }),
    ],
  };
}

/** Forty jobs nacked by one statement, each due so many microseconds later. */
export function storm(delayOf: (n: number) => number): Partial<Evidence> {
  const ids = Array.from({ length: 40 }, (_, n) => `${OTHER.slice(0, -2)}${n + 10}`);
  const nacked = ended({ epoch: 1, outcome: 'nacked', endedAt: DAY });
  return {
    attempts: ids.map((id) => ({ ...nacked, id })),
    dues: ids.map((id, n) => ({ id, epoch: 1, dueAt: DAY + delayOf(n) })),
  };
}

export function delivery(epoch: number): Delivery {
  const expiresAt = DAY + epoch * 5 * SECOND;
  return { id: JOB, token: tokenOf(epoch), epoch, expiresAt, source: `worker-${epoch}`, at: epoch * 5 };
}

interface Told {
  readonly verb: Verb;
  readonly epoch: number;
  readonly begun: number;
  readonly outcome: string;
}

export function settling({ verb, epoch, begun, outcome }: Told): Settling {
  const expiresAt = verb === 'heartbeat' && outcome === 'OK' ? DAY : undefined;
  const answer = { outcome, expiresAt, at: begun + 1 };
  return { verb, id: JOB, token: tokenOf(epoch), epoch, source: `worker-${epoch}`, begun, answer };
}

function tokenOf(epoch: number): string {
  return formatLeaseToken({ queueId: 1, jobId: JOB, epoch, leaseId: String(epoch) });
}
