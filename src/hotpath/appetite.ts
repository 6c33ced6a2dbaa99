const LEAST = 16;
const MOST = 2_000;
const MOST_QUEUES = 100_000;

interface Learnt {
  appetite: number;
  likely: number;
}

/**
 * How many rows one claim asks a queue for: few while jobs come singly, however many workers are parked, and more as long as it
 * gives all it is asked for. Only the cost of a claim depends on it, never whether a job is found.
 */
export class Appetite {
  private readonly queues = new Map<number, Learnt>();

  /** Rows to ask for. */
  of(queueId: number): number {
    return this.queues.get(queueId)?.appetite ?? LEAST;
  }

  /** Rows the queue will probably give: those it had last; 0 when nothing is known. */
  likely(queueId: number): number {
    return this.queues.get(queueId)?.likely ?? 0;
  }

  /** A claim asked for so many rows and found so many. */
  learn(queueId: number, asked: number, found: number): void {
    const filled = found >= asked;
    const appetite = filled
      ? Math.min(MOST, Math.max(this.of(queueId), asked * 4))
      : Math.max(LEAST, Math.ceil(this.of(queueId) / 2));
    if (this.queues.size >= MOST_QUEUES) this.queues.clear();
    this.queues.set(queueId, { appetite, likely: found });
  }
}
