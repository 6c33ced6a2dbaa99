import { Appetite } from './appetite.js';
import type { Claim } from './claim-kind.js';
import type { Lanes, Start, Taken } from './lanes.js';
import type { QueueDirectory } from './queue-directory.js';
import type { Round, RoundQueue } from './round.js';
import { WorkFlags } from './work-flags.js';

export interface ExpectationsParts {
  readonly queues: Pick<QueueDirectory, 'limits'>;
  readonly lanes: Lanes;
  /** Told when a queue at its rate limit may lease again. */
  readonly onPace: (queueId: number) => void;
}

/** What this instance expects of each queue, learnt from claims: whether it has work, for how many, and from where on. */
export class Expectations {
  readonly flags = new WorkFlags();
  private readonly appetite = new Appetite();
  private readonly paced = new Map<number, NodeJS.Timeout>();

  constructor(private readonly parts: ExpectationsParts) {}

  /** How many rows a claim asks the queue for. */
  appetiteFor(queueId: number): number {
    return this.flags.knownEmpty(queueId) ? 0 : this.appetite.of(queueId);
  }

  /** How many rows the queue will probably give. */
  likely(queueId: number): number {
    return this.appetite.likely(queueId);
  }

  /** Whether the queue has a bound on its leases. */
  isLimited(queueId: number): boolean {
    return this.parts.queues.limits(queueId).limited;
  }

  /** Where a claim of the queue begins. */
  start(queueId: number): Start {
    return this.parts.lanes.start(queueId);
  }

  /** Takes in what a claim found. A queue is empty when it had less than was asked for and all of that was taken. */
  learn(round: Round, { taken, found }: Omit<Claim<unknown>, 'waits'>): void {
    for (const asked of round.queues) {
      const lanes = taken.get(asked.queueId) ?? NONE;
      const rows = rowsOf(lanes);
      const looked = found.get(asked.queueId) ?? 0;
      this.parts.lanes.learn(asked.queueId, lanes, rows >= asked.limit);
      this.appetite.learn(asked.queueId, asked.limit, looked);
      if (looked < asked.limit && rows === looked && !asked.start.shortened) this.emptied(asked, round);
    }
  }

  close(): void {
    for (const timer of this.paced.values()) clearTimeout(timer);
  }

  private emptied({ queueId }: RoundQueue, { version }: Round): void {
    this.flags.empty(queueId, version);
    const { rateInterval } = this.parts.queues.limits(queueId);
    if (rateInterval === null || this.paced.has(queueId)) return;
    const pace = Math.min(LONGEST_PACE_MS, Math.max(SHORTEST_PACE_MS, rateInterval));
    const timer = setTimeout(() => {
      this.paced.delete(queueId);
      this.parts.onPace(queueId);
    }, pace);
    this.paced.set(queueId, timer);
  }
}

/** Between these a rate limit's own pace is kept; beyond them a poll looks anyway. */
const [SHORTEST_PACE_MS, LONGEST_PACE_MS] = [10, 1_000];

const NONE: Taken = new Map();

function rowsOf(taken: Taken): number {
  let sum = 0;
  for (const { rows } of taken.values()) sum += rows;
  return sum;
}
