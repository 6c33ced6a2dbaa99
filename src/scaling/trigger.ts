import { type Static, Type } from 'typebox';
import { queueName } from '../jobs/enqueue-fields.js';

const amount = { maximum: 1_000_000_000 };

/** A trigger of KEDA: which queues are looked at, what is measured in them, and how much of that one worker is for. */
export const Trigger = Type.Object({
  queue: Type.Array(queueName, { minItems: 1, maxItems: 100, uniqueItems: true }),
  metric: Type.Optional(Type.Enum(['backlog', 'oldestAge'])),
  targetPerReplica: Type.Optional(Type.Number({ exclusiveMinimum: 0, ...amount })),
  activationThreshold: Type.Optional(Type.Number({ minimum: 0, ...amount })),
});
export type Trigger = Static<typeof Trigger>;

/** What every call of KEDA is given. */
export const triggerInput = { scalerMetadata: Trigger };

const METRICS = {
  /** Jobs. */
  backlog: { name: 'stint-backlog', target: 10 },
  /** Seconds. */
  oldestAge: { name: 'stint-oldest-age', target: 30 },
} as const;

/** What the trigger's metric is called, and how much of it one worker is for. */
export function metricOf({ metric = 'backlog', targetPerReplica }: Trigger): { name: string; target: number } {
  const { name, target } = METRICS[metric];
  return { name, target: targetPerReplica ?? target };
}
