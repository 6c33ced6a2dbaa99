/** The leases that a stream's worker holds, as far as the stream knows, and how many more it may be given. */
export class Window {
  /** When each lease runs out unless it is extended: milliseconds of this process. */
  readonly #held = new Map<string, number>();
  #credits = 0;
  #timer: NodeJS.Timeout | undefined;

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
    this.#held.set(leaseToken, performance.now() + milliseconds);
    this.#plan();
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

  /** One timer for all, set anew when it fires: leases are mostly settled, or extended, long before. */
  #plan(): void {
    if (this.#timer !== undefined || this.#held.size === 0) return;
    const next = Math.min(...this.#held.values()) - performance.now();
    this.#timer = setTimeout(() => this.#expire(), Math.max(SOONEST_MS, next)).unref();
  }

  #expire(): void {
    this.#timer = undefined;
    const now = performance.now();
    const before = this.#held.size;
    for (const [leaseToken, until] of this.#held) if (until <= now) this.#held.delete(leaseToken);
    this.#plan();
    if (this.#held.size < before) this.onFree();
  }
}

const SOONEST_MS = 50;
