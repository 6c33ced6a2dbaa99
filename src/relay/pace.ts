const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
const LONGEST_ASKED_MS = 300_000;
/** Refusals in a row, none of which said which job is at fault, after which the fault is not the jobs'. */
const MOST_STUCK = 16;

/**
 * How many rows are sent at once, how long the relay waits after failures, and which queues take nothing for now. After a failure
 * one row is sent, then twice as many each time: so a Stint that is away costs the database one claim a try, and a row at fault
 * is found by halving.
 */
export class Pace {
  private size: number;
  private failures = 0;
  private stuck = 0;
  private readonly full = new Map<string, { until: number; times: number }>();

  constructor(private readonly most: number) {
    this.size = most;
  }

  get rows(): number {
    return this.size;
  }

  /** Queues that take nothing for now. */
  get fullQueues(): string[] {
    const now = performance.now();
    return [...this.full].filter(([, { until }]) => until > now).map(([queue]) => queue);
  }

  /** Milliseconds until the first of them is tried again; undefined when there is none. */
  get untilNotFull(): number | undefined {
    const now = performance.now();
    const left = [...this.full.values()].map(({ until }) => until - now).filter((rest) => rest > 0);
    return left.length === 0 ? undefined : Math.min(...left);
  }

  /** These were taken. */
  accepted(queues: Iterable<string>): void {
    this.failures = 0;
    this.stuck = 0;
    this.size = Math.min(this.most, this.size * 2);
    for (const queue of queues) this.full.delete(queue);
  }

  /** A job among so many was refused. */
  refused(rows: number): void {
    this.size = Math.max(1, Math.floor(rows / 2));
  }

  /** The same, and it was not said which; answers whether the fault can still be thought a job's. */
  unplaced(rows: number): boolean {
    this.refused(rows);
    this.stuck += 1;
    return this.stuck <= MOST_STUCK;
  }

  /** This queue takes nothing, and asks for so many milliseconds. */
  isFull(queue: string, asked = 1_000): void {
    const times = (this.full.get(queue)?.times ?? 0) + 1;
    const pause = Math.max(asked, Math.min(LONGEST_PAUSE_MS, 500 * 2 ** Math.min(times, 10)));
    this.full.set(queue, { until: performance.now() + Math.min(LONGEST_ASKED_MS, pause), times });
  }

  /** A try has failed. Answers how many milliseconds to wait, with jitter and never less than asked. */
  failed(asked = 0): number {
    this.size = 1;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(this.failures, 10));
    this.failures += 1;
    return Math.max(pause * (0.5 + Math.random() / 2), Math.min(asked, LONGEST_ASKED_MS));
  }

  /** A side that was away is back: nothing needs to be waited for. */
  recovered(): void {
    this.failures = 0;
  }
}
