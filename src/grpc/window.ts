/** The leases that a stream's worker holds, as far as the stream knows, and how many more it may be given. */
export class Window {
  /** When each lease runs out unless it is extended: milliseconds of this process. */
  readonly #held = new Map<string, number>();
  #credits = 0;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer fires. */
  #next = Infinity;

  /** @param onFree told when a lease has run out */
  constructor(private readonly onFree: () => void) {}

  set credits(credits: number) {
    this.#credits = credits;
  }

  /** How many more jobs the worker may be given. */
  get free(): number {
    return this.#credits - this.#held.size;
  }

  /** A lease was given, or extended, for so many milliseconds. */
  hold(leaseToken: string, milliseconds: number): void {
    const until = performance.now() + milliseconds;
    this.#held.set(leaseToken, until);
    if (until < this.#next) this.#plan(until);
  }

  extend(leaseToken: string, milliseconds: number): void {
    if (this.#held.has(leaseToken)) this.hold(leaseToken, milliseconds);
  }

  /** A lease has ended. */
  drop(leaseToken: string): void {
    this.#held.delete(leaseToken);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#held.clear();
  }

  /** One timer for all: leases are mostly settled, or extended, long before it fires. */
  #plan(next: number): void {
    clearTimeout(this.#timer);
    this.#next = next;
    this.#timer = setTimeout(() => this.#expire(), Math.max(SOONEST_MS, next - performance.now())).unref();
  }

  #expire(): void {
    this.#next = Infinity;
    const now = performance.now();
    const before = this.#held.size;
    for (const [leaseToken, until] of this.#held) if (until <= now) this.#held.delete(leaseToken);
    if (this.#held.size > 0) this.#plan(Math.min(...this.#held.values()));
    if (this.#held.size < before) this.onFree();
  }
}

const SOONEST_MS = 50;
