import { Type } from 'typebox';
import type { Context } from '../core/operation.js';
import { InvalidItem } from '../core/wire.js';
import type { Connections } from '../db/pool.js';
import type { BatchKind } from '../hotpath/batcher.js';
import type { Engine } from '../hotpath/engine.js';
import { type LeaseToken, parseLeaseToken } from './lease-token.js';
import { outcomesOf, type Settled, type Verb } from './outcome.js';

export const leaseToken = Type.String({ maxLength: 256, description: 'From the lease.' });

interface Given {
  readonly leaseToken: string;
}

/** An item whose token has been read and whose queue is the caller's. */
export interface SettleItem<Item> {
  readonly token: LeaseToken;
  readonly item: Item;
}

export interface Settling<Item, Result extends Settled> {
  readonly kind: BatchKind<SettleItem<Item>, Result>;
  readonly sizeOf: (item: Item) => number;
  /** Tells whoever waits for what this result brings about. */
  readonly announce?: (engine: Engine, token: LeaseToken, result: Result) => void;
}

/**
 * Settles items through the verb's flush. Results come in the order of the items; one bad item never fails its neighbours,
 * except that nothing is carried out when the database is away.
 *
 * @throws ServiceError UNAVAILABLE
 */
export function settleEach<Item extends Given, Result extends Settled>(
  context: Context<Engine>,
  { kind, sizeOf, announce }: Settling<Item, Result>,
  items: readonly (Item | InvalidItem)[],
): Promise<(Result | Settled)[]> {
  return Promise.all(
    items.map(async (item): Promise<Result | Settled> => {
      if (item instanceof InvalidItem) return invalid(item.field, item.message);
      const token = parseLeaseToken(item.leaseToken);
      if (token === undefined) return invalid('leaseToken', 'is not a lease token of this service');
      const queue = await context.engine.queues.byId(context.tenant.id, token.queueId);
      if (queue === undefined || !context.mayUse(queue.name)) return { outcome: 'NOT_FOUND' };
      const result = await context.engine.batches.submit(kind, {
        tenantId: context.tenant.id,
        item: { token, item },
        rows: 1,
        bytes: sizeOf(item),
        keys: [token.jobId],
      });
      if (result.outcome === 'OK') announce?.(context.engine, token, result);
      return result;
    }),
  );
}

/** Calls with current leases have their results in `found`; the others are told what has become of theirs, in place. */
export async function withOutcomes<Result extends Settled>(
  connections: Connections,
  { verb, tokens }: { readonly verb: Verb; readonly tokens: readonly LeaseToken[] },
  found: (token: LeaseToken) => Result | undefined,
): Promise<(Result | Settled)[]> {
  const results = tokens.map((token) => found(token));
  const missed = tokens.filter((_, index) => results[index] === undefined);
  const outcomes = (await outcomesOf(connections, verb, missed)).values();
  return results.map((result) => result ?? outcomes.next().value!);
}

function invalid(field: string, message: string): Settled {
  return { outcome: 'INVALID', error: { field, message } };
}

/** Sorted by job, so that statements that overlap lock in the same order. */
export function inOrder<Item>(items: readonly SettleItem<Item>[]): SettleItem<Item>[] {
  return [...items].sort((a, b) => (a.token.jobId < b.token.jobId ? -1 : 1));
}
