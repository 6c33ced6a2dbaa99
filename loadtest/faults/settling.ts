import { setTimeout as pause } from 'node:timers/promises';
import type { Actor } from './actor.js';
import { now, type SeenLease, type SettleItem, type SettleOutcome, type Verb } from './journal.js';
import { microseconds } from './timestamp.js';

const SETTLE_MS = 20_000;

/** Settles leases, and writes down what it asks and what it is told. */
export class Settler {
  private calls = 0;

  constructor(private readonly actor: Actor) {}

  /** Asks until it is answered. */
  async settle(jobs: readonly SeenLease[], verbOf: () => Verb): Promise<void> {
    const items = itemsOf(jobs, verbOf);
    for (const deadline = now() + SETTLE_MS * 1_000; now() < deadline;) {
      if (await this.send(items)) return;
      await pause(this.actor.random.between(50, 400));
    }
  }

  /** Acks without waiting for the answer longer than so many milliseconds. */
  async ackUnheard(jobs: readonly SeenLease[], patience: number): Promise<void> {
    await this.send(
      itemsOf(jobs, () => 'ack'),
      AbortSignal.timeout(patience),
    );
  }

  private async send(items: readonly SettleItem[], signal?: AbortSignal): Promise<boolean> {
    const { journal, client } = this.actor;
    const call = (this.calls += 1);
    journal.write({ type: 'settle', call, at: now(), items: [...items] });
    const [path, body] = requestOf(items);
    const reply = await client.post(path, body, signal === undefined ? {} : { signal });
    if (reply.status !== 200) return false;
    journal.write({ type: 'settled', call, at: now(), outcomes: outcomesOf(items, reply.body as Answer) });
    return true;
  }
}

function itemsOf(jobs: readonly SeenLease[], verbOf: () => Verb): SettleItem[] {
  return jobs.map(({ id, token, epoch }) => ({ verb: verbOf(), id, token, epoch }));
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
