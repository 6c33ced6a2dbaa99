const LEAST = 16;
const MOST = 2_000;

/**
 * How many parked leases one claim serves from a queue: few while jobs come singly, however many workers are parked, and more as
 * long as every one of them gets its fill. Only the cost of a claim depends on it, never whether a job is found.
 */
export class Appetite {
  private readonly leases = new Map<number, number>();

  of(queueId: number): number {
    return this.leases.get(queueId) ?? LEAST;
  }

  /** A claim asked for so many leases; `filled` when the queue had all the jobs they wanted. */
  learn(queueId: number, asked: number, filled: boolean): void {
    const next = filled ? Math.min(MOST, Math.max(this.of(queueId), asked * 4)) : Math.ceil(this.of(queueId) / 2);
    if (next <= LEAST) this.leases.delete(queueId);
    else this.leases.set(queueId, next);
  }
}
