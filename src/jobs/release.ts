import { Type, type Static } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration, InvalidItem, LenientArray } from '../core/wire.js';
import type { Engine } from '../hotpath/engine.js';
import { MAX_AHEAD_MS } from './enqueue-fields.js';
import { announceHandedBack, handBackKind } from './hand-back.js';
import { oneLease } from './one-lease.js';
import { outcomeFields } from './outcome.js';
import { leaseToken, settleEach } from './settle-items.js';
import { settleFacts } from './span-facts.js';

export const ReleaseItem = Type.Object({
  leaseToken,
  delay: Type.Optional(
    Duration({ minimum: 0, maximum: MAX_AHEAD_MS, description: 'Not to be leased before this much time from now.' }),
  ),
});
export type ReleaseItem = Static<typeof ReleaseItem>;

export const ReleaseResult = Type.Object(outcomeFields);
export type ReleaseResult = Static<typeof ReleaseResult>;

export const release = defineOperation({
  name: 'Release',
  group: 'Jobs',
  summary: 'Hand jobs back, spending no attempt',
  description:
    'For jobs that were not begun or can be done by another worker, for instance at shutdown. Unlimited, but counted.',
  scopes: ['work'],
  span: {
    verb: 'release',
    type: 'settle',
    facts: (context: Context<Engine>, { items }, output) => settleFacts(context, items, output?.results),
  },
  http: [
    { method: 'POST', path: '/v1/leases/release' },
    {
      method: 'POST',
      path: '/v1/jobs/:id/release',
      suffix: 'One',
      summary: 'Hand one job back',
      form: oneLease(ReleaseItem, ReleaseResult),
    },
  ],
  input: Type.Object({ items: LenientArray(ReleaseItem, { minItems: 1, maxItems: 1000 }) }),
  output: Type.Object({ results: Type.Array(ReleaseResult) }),
  example: { items: [{ leaseToken: '…' }] },
  run: async (context: Context<Engine>, { items }) => ({ results: await releaseEach(context, items) }),
});

/** Hands each item back; results come in their order. */
export function releaseEach(
  context: Context<Engine>,
  items: readonly (ReleaseItem | InvalidItem)[],
): Promise<ReleaseResult[]> {
  const handBacks = items.map((item) =>
    item instanceof InvalidItem
      ? item
      : { leaseToken: item.leaseToken, ended: 'released' as const, delay: item.delay, final: false, error: undefined },
  );
  return settleEach(context, { kind: handBackKind, sizeOf: () => 0, announce: announceHandedBack }, handBacks);
}
