import type { DatabaseClock } from './clock.js';

/** The farthest that a timer looks ahead; what is due later is met again by the regular turn of the task. */
const AHEAD_MS = 2_000;

/** One timer for the next job that is due, so that it is promoted at its instant and not at the next regular turn. */
export class DueTimer {
  private timer: NodeJS.Timeout | undefined;
  private next = Infinity;

  constructor(
    private readonly clock: DatabaseClock,
    private readonly run: () => void,
  ) {}

  /** Something is due at that instant (microseconds, the database's clock). */
  at(dueMicros: number): void {
    if (dueMicros >= this.next) return;
    const wait = (dueMicros - this.clock.now()) / 1_000;
    if (wait > AHEAD_MS) return;
    clearTimeout(this.timer);
    this.next = dueMicros;
    this.timer = setTimeout(() => this.fire(), Math.max(0, Math.ceil(wait)));
  }

  stop(): void {
    clearTimeout(this.timer);
    this.next = -Infinity;
  }

  private fire(): void {
    this.next = Infinity;
    this.run();
  }
}
