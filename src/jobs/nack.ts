import { Type, type Static } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration, InvalidItem, JsonText, LenientArray } from '../core/wire.js';
import type { Engine } from '../hotpath/engine.js';
import { MAX_AHEAD_MS } from './enqueue-fields.js';
import { announceHandedBack, type HandBack, handBackKind } from './hand-back.js';
import { storableError } from './nack-error.js';
import { oneLease } from './one-lease.js';
import { outcomeFields } from './outcome.js';
import { leaseToken, settleEach } from './settle-items.js';
import { settleFacts } from './span-facts.js';

export const NackItem = Type.Object({
  leaseToken,
  error: Type.Optional(
    JsonText({
      description:
        '`{message, type?, detail?}`: why it failed. Kept to 4 KiB, 256 bytes and 16 KiB; what is longer is cut with a marker. Never a reason to refuse the nack.',
    }),
  ),
  delay: Type.Optional(
    Duration({ minimum: 0, maximum: MAX_AHEAD_MS, description: 'In place of what the retry policy says.' }),
  ),
  final: Type.Optional(Type.Boolean({ description: 'True: no further attempt, the job is dead.' })),
});
export type NackItem = Static<typeof NackItem>;

export const NackResult = Type.Object(outcomeFields);
export type NackResult = Static<typeof NackResult>;

export const nack = defineOperation({
  name: 'Nack',
  group: 'Jobs',
  summary: 'Report failed jobs: they are retried later',
  description:
    'The attempt is spent. The job is retried after a delay, or is dead when it was its last attempt or `final` says so.',
  scopes: ['work'],
  span: {
    verb: 'nack',
    type: 'settle',
    facts: (context: Context<Engine>, { items }, output) => settleFacts(context, items, output?.results),
  },
  http: [
    { method: 'POST', path: '/v1/leases/nack' },
    {
      method: 'POST',
      path: '/v1/jobs/:id/nack',
      suffix: 'One',
      summary: 'Report one failed job',
      form: oneLease(NackItem, NackResult),
    },
  ],
  input: Type.Object({ items: LenientArray(NackItem, { minItems: 1, maxItems: 1000 }) }),
  output: Type.Object({ results: Type.Array(NackResult) }),
  example: { items: [{ leaseToken: '…', error: { message: 'mail server away', type: 'smtp' } }] },
  run: async (context: Context<Engine>, { items }) => ({ results: await nackEach(context, items) }),
});

/** Nacks each item; results come in their order. */
export function nackEach(context: Context<Engine>, items: readonly (NackItem | InvalidItem)[]): Promise<NackResult[]> {
  const handBacks = items.map((item) =>
    item instanceof InvalidItem ? item : { leaseToken: item.leaseToken, ...handBackOf(item) },
  );
  return settleEach(
    context,
    { kind: handBackKind, sizeOf: ({ error }: HandBack) => error?.length ?? 0, announce: announceHandedBack },
    handBacks,
  );
}

function handBackOf({ error, delay, final }: NackItem): HandBack {
  return {
    ended: 'nacked',
    delay,
    final: final ?? false,
    error: error === undefined ? undefined : storableError(error),
  };
}
