import type { Context } from '../core/operation.js';
import type { Depth, Depths } from '../hotpath/depths.js';
import type { Engine } from '../hotpath/engine.js';
import type { Trigger } from './trigger.js';

/** What the queues of a trigger hold together. */
export interface Workload {
  /** Jobs that could be leased now. */
  readonly waiting: number;
  readonly leased: number;
  /** Seconds that the first of those jobs has waited. */
  readonly oldestAge: number;
  /** The queues that are there. */
  readonly queueIds: ReadonlySet<number>;
  /** Some of them are not. */
  readonly lacking: boolean;
}

/** Reads it: `recent` may be a second old, `now` is not. */
export async function readWorkload(
  { engine, tenant }: Pick<Context<Engine>, 'engine' | 'tenant'>,
  { queue, metric }: Trigger,
  how: keyof Pick<Depths, 'recent' | 'now'>,
): Promise<Workload> {
  const aged = metric === 'oldestAge';
  const depths = await Promise.all(queue.map((name) => engine.depths[how]({ tenantId: tenant.id, name, aged })));
  const sum = (of: (depth: Depth) => number): number => depths.reduce((total, depth) => total + of(depth), 0);
  const queueIds = new Set(depths.flatMap(({ queueId }) => queueId ?? []));
  return {
    waiting: sum(({ waiting }) => waiting),
    leased: sum(({ leased }) => leased),
    oldestAge: Math.max(...depths.map(({ oldestAge }) => oldestAge)),
    queueIds,
    lacking: queueIds.size < depths.length,
  };
}

/** What the trigger measures. A leased job counts: without it the worker that has it would be one too many. */
export function valueOf({ metric }: Trigger, { waiting, leased, oldestAge }: Workload): number {
  return metric === 'oldestAge' ? oldestAge : waiting + leased;
}

/**
 * Whether there have to be workers. As long as a job is leased there have to be, whatever the threshold is: it keeps workers from being
 * woken for little, and never takes one from its work.
 */
export function isActive(trigger: Trigger, workload: Workload): boolean {
  const { activationThreshold: threshold = 0 } = trigger;
  if (workload.leased > 0) return true;
  return workload.waiting > 0 && (threshold === 0 || valueOf(trigger, workload) > threshold);
}
