import { parseDuration } from '../../src/core/duration.js';
import type { Breach } from './breach.js';
import type { AttemptRow, DueRow, Evidence } from './evidence.js';
import { grouped } from './grouped.js';
import { type LoadRetry, QUEUES, STORMY } from './queues.js';

/** Of so many jobs that fail together, the chance that an even jitter keeps all within half of itself is below 10^-7. */
const BURST = 30;
/** Microseconds: what rounding may take from an instant. */
const ROUNDING = 2;

/** A job that was nacked comes back when its policy says, not before; jobs that were nacked together do not come back together. */
export function retriesOf(evidence: Evidence): Breach[] {
  return [...early(evidence), ...burstsOf(evidence).flatMap(unevenness)];
}

/** By the next lease that the database knows of, whichever it was. */
function early({ attempts, jobs }: Evidence): Breach[] {
  const rows = new Map(jobs.map((job) => [job.id, job]));
  const histories = grouped(attempts, ({ id }) => id);
  return attempts
    .filter(({ outcome }) => outcome === 'nacked')
    .flatMap((nacked) => {
      const job = rows.get(nacked.id);
      if (job === undefined) return [];
      const starts = [...(histories.get(nacked.id) ?? []), job]
        .filter(({ epoch, startedAt }) => epoch > nacked.epoch && startedAt !== null)
        .map(({ startedAt }) => startedAt!);
      const waited = Math.min(Infinity, ...starts) - nacked.endedAt;
      const asked = askedDelay(QUEUES[job.queue]!.retry, nacked.attempt);
      if (waited >= asked - ROUNDING) return [];
      const fact = `nacked in attempt ${nacked.attempt} it was leased again after ${ms(waited)} of ${ms(asked)}`;
      return [{ rule: 'a nacked job does not come back earlier than asked', about: nacked.id, facts: [fact] }];
    });
}

export interface Burst {
  /** Microseconds from the nack until each is due, least first. */
  readonly delays: readonly number[];
  readonly endedAt: number;
}

/** Jobs that one statement nacked, as far as they were seen waiting for their time; only where there are enough of them. */
export function burstsOf({ attempts, dues }: Evidence): Burst[] {
  const seen = new Map(dues.map((due) => [nameOf(due), due.dueAt]));
  const nacked = attempts.filter((attempt) => attempt.outcome === 'nacked' && seen.has(nameOf(attempt)));
  return [...grouped(nacked, ({ endedAt }) => String(endedAt)).values()]
    .filter(({ length }) => length >= BURST)
    .map((together) => ({
      delays: together.map((attempt) => seen.get(nameOf(attempt))! - attempt.endedAt).sort((a, b) => a - b),
      endedAt: together[0]!.endedAt,
    }));
}

/** An even jitter spreads the times over all of itself; here it is held to half. */
function unevenness({ delays, endedAt }: Burst): Breach[] {
  const { retry } = QUEUES[STORMY]!;
  const asked = askedDelay(retry, 1);
  const jitter = retry.type === 'exponential' ? retry.jitter * asked : 0;
  const [least, most] = [delays[0]!, delays.at(-1)!];
  const about = `${delays.length} jobs nacked at ${endedAt}`;
  const facts = [`they are due after ${ms(least)} to ${ms(most)}, of ${ms(asked)} and a jitter of ${ms(jitter)}`];
  return [
    ...(least < asked - ROUNDING ? [{ rule: 'no retry is due earlier than asked', about, facts }] : []),
    ...(most > asked + jitter + ROUNDING ? [{ rule: 'no retry is due later than asked', about, facts }] : []),
    ...(most - least < jitter / 2 ? [{ rule: 'jobs that are nacked together are due spread out', about, facts }] : []),
  ];
}

/** Microseconds, without the jitter. */
function askedDelay(retry: LoadRetry, attempt: number): number {
  if (retry.type === 'fixed') return 1_000 * parseDuration(retry.delays[attempt - 1] ?? retry.delays.at(-1)!)!;
  const { initial, max, factor } = retry;
  return 1_000 * Math.min(parseDuration(max)!, parseDuration(initial)! * factor ** (attempt - 1));
}

function nameOf({ id, epoch }: Pick<DueRow | AttemptRow, 'id' | 'epoch'>): string {
  return `${id} ${epoch}`;
}

function ms(microseconds: number): string {
  return `${(microseconds / 1_000).toFixed(1)} ms`;
}
