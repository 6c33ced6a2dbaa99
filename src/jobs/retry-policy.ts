import { type Static, Type } from 'typebox';
import { Duration } from '../core/wire.js';

const LONGEST_DELAY_MS = 366 * 86_400_000;

const delay = (description: string) => Duration({ minimum: 0, maximum: LONGEST_DELAY_MS, description });
const jitter = Type.Optional(
  Type.Number({
    minimum: 0,
    maximum: 1,
    description: 'Up to this share of a delay is added by chance. Default 0.2 (`exponential`) or 0 (`fixed`).',
  }),
);

/** When a failed job is tried again. Kept in the database as it is here: durations in milliseconds. */
export const RetryPolicy = Type.Union([
  Type.Object({
    type: Type.Literal('exponential'),
    initial: Type.Optional(delay('The delay after the first failed attempt. Default 10s.')),
    factor: Type.Optional(
      Type.Number({
        minimum: 1,
        maximum: 100,
        description: 'Each further delay is this times the one before. Default 2.',
      }),
    ),
    max: Type.Optional(delay('No delay is longer, but for the jitter. Default 1h.')),
    jitter,
  }),
  Type.Object({
    type: Type.Literal('fixed'),
    delays: Type.Array(delay('The delay after one failed attempt.'), {
      minItems: 1,
      maxItems: 100,
      description: 'One after the other; the last repeats.',
    }),
    jitter,
  }),
]);
export type RetryPolicy = Static<typeof RetryPolicy>;

export const DEFAULT_RETRY = { type: 'exponential', initial: 10_000, factor: 2, max: 3_600_000, jitter: 0.2 } as const;

/** The policy with every member it leaves out at its default: what is stored. */
export function completeRetryPolicy(policy: RetryPolicy): RetryPolicy {
  if (policy.type === 'fixed') return { jitter: 0, ...policy };
  return { ...DEFAULT_RETRY, ...policy };
}
