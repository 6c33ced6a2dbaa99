import { Type, type Static } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { InvalidItem, LenientArray } from '../core/wire.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { ackEach, AckItem, AckResult } from './ack.js';
import { heartbeatEach, HeartbeatItem, HeartbeatResult } from './heartbeat.js';
import { nackEach, NackItem, NackResult } from './nack.js';
import { releaseEach, ReleaseItem, ReleaseResult } from './release.js';
import { mixedFacts } from './span-facts.js';

const MOST = 1_000;

export const Settles = Type.Object({
  heartbeats: Type.Optional(LenientArray(HeartbeatItem, { maxItems: MOST })),
  acks: Type.Optional(LenientArray(AckItem, { maxItems: MOST })),
  nacks: Type.Optional(LenientArray(NackItem, { maxItems: MOST })),
  releases: Type.Optional(LenientArray(ReleaseItem, { maxItems: MOST })),
});
export type Settles = Static<typeof Settles>;

export const SettleResults = Type.Object({
  heartbeats: Type.Array(HeartbeatResult),
  acks: Type.Array(AckResult),
  nacks: Type.Array(NackResult),
  releases: Type.Array(ReleaseResult),
});
export type SettleResults = Static<typeof SettleResults>;

export const settle = defineOperation({
  name: 'Settle',
  group: 'Jobs',
  summary: 'Ack, nack, release and extend leases in one call',
  description:
    'At most 1,000 items in all. Items for one lease are taken heartbeats first, then acks, nacks, releases, then by position: the first wins, the rest answer as a later call would.',
  scopes: ['work'],
  span: { verb: 'settle', type: 'settle', facts: mixedFacts },
  http: [{ method: 'POST', path: '/v1/leases/settle' }],
  input: Settles,
  output: SettleResults,
  example: { acks: [{ leaseToken: '…' }], heartbeats: [{ leaseToken: '…' }] },
  run: async (context: Context<Engine>, input) => settleAll(context, input),
});

const VERBS = ['heartbeats', 'acks', 'nacks', 'releases'] as const;
type Verb = (typeof VERBS)[number];

/**
 * Settles four lists. Leases that stand in it once, that is nearly always all of them, go together; a further item for the
 * same lease goes in a later turn, so that its answer is that of a later call.
 *
 * @throws ServiceError INVALID_ARGUMENT for more than 1,000 items in all, UNAVAILABLE
 */
export async function settleAll(context: Context<Engine>, settles: Settles): Promise<SettleResults> {
  const total = VERBS.reduce((sum, verb) => sum + (settles[verb]?.length ?? 0), 0);
  if (total > MOST)
    throw invalidField('acks, nacks, releases and heartbeats', `must have at most ${MOST} items in all`);
  const results: SettleResults = { heartbeats: [], acks: [], nacks: [], releases: [] };
  for (const turn of turnsOf(settles)) {
    const run = async <I, R>(
      verb: Verb,
      each: (context: Context<Engine>, items: I[]) => Promise<R[]>,
    ): Promise<void> => {
      const places = turn[verb];
      if (places.length === 0) return;
      const done = await each(
        context,
        places.map((place) => settles[verb]![place] as I),
      );
      places.forEach((place, index) => ((results[verb] as R[])[place] = done[index]!));
    };
    await Promise.all([
      run('heartbeats', heartbeatEach),
      run('acks', ackEach),
      run('nacks', nackEach),
      run('releases', releaseEach),
    ]);
  }
  return results;
}

type Turn = Record<Verb, number[]>;

function turnsOf(settles: Settles): Turn[] {
  const turns: Turn[] = [];
  const seen = new Map<string, number>();
  for (const verb of VERBS) {
    settles[verb]?.forEach((item: { readonly leaseToken: string } | InvalidItem, place) => {
      const turn = item instanceof InvalidItem ? 0 : (seen.get(item.leaseToken) ?? 0);
      if (!(item instanceof InvalidItem)) seen.set(item.leaseToken, turn + 1);
      (turns[turn] ??= { heartbeats: [], acks: [], nacks: [], releases: [] })[verb].push(place);
    });
  }
  return turns;
}
