import { setTimeout as pause } from 'node:timers/promises';

export interface Job {
  readonly id: string;
  readonly kind?: string;
  readonly payload?: unknown;
  /** From 1. */
  readonly attempt: number;
  readonly leaseToken: string;
  /** Of this lease, in seconds: `"30s"`. */
  readonly visibilityTimeout: string;
}

/**
 * Does one job, and answers its result as JSON; what it throws is a failed attempt. `signal` aborts when the lease is lost, the job's
 * cancellation is asked for, or the worker is ending: stop then, and throw.
 *
 * Put your work here. What stands here is a demonstration that does as the payload says, see examples/README.md.
 */
export async function handle(job: Job, signal: AbortSignal): Promise<unknown> {
  const { do: task, ms = 20 } = (job.payload ?? {}) as { do?: string; ms?: number };
  await pause(task === 'slow' ? leaseMs(job) * 2.5 : ms, undefined, { signal });
  if (task === 'poison') throw new Error('poisoned: it fails at every attempt');
  if (task === 'fail-once' && job.attempt === 1) throw new Error('the first attempt fails');
  return { attempt: job.attempt };
}

/** How long a lease of this job lasts without a heartbeat, in milliseconds. */
export function leaseMs({ visibilityTimeout }: Job): number {
  return Number.parseFloat(visibilityTimeout) * 1_000;
}
