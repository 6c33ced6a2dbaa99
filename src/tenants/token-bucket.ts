/**
 * An allowance that fills at a steady rate up to what comes in a second, and one more, so that who returns a little late loses nothing of a
 * low rate. What takes more than is there goes through while anything is there, and is made up for: so a batch larger than the rate is
 * possible, and the rate holds over time.
 */
export class TokenBucket {
  #tokens: number;
  #at: number;

  /** @param rate tokens a second, more than 0; `now` in milliseconds, here and below */
  constructor(
    private rate: number,
    now: number,
  ) {
    this.#tokens = Math.max(1, rate);
    this.#at = now;
  }

  /** The most that it ever holds. */
  get capacity(): number {
    return Math.max(1, this.rate) + 1;
  }

  /** Changes the rate from now on. */
  setRate(rate: number, now: number): void {
    this.#fill(now);
    this.rate = rate;
    this.#tokens = Math.min(this.#tokens, this.capacity);
  }

  /** Takes tokens. Answers 0, or after how many seconds to try again; then nothing was taken. */
  take(count: number, now: number): number {
    this.#fill(now);
    if (this.#tokens < 1) return (1 - this.#tokens) / this.rate;
    this.#tokens -= count;
    return 0;
  }

  /** Gives back what was taken for nothing. */
  putBack(count: number): void {
    this.#tokens = Math.min(this.capacity, this.#tokens + count);
  }

  /** Tokens that are there; below 0 what is to be made up for. */
  left(now: number): number {
    this.#fill(now);
    return this.#tokens;
  }

  /** After how many seconds a second's worth is there, when nothing is taken meanwhile. */
  untilFull(now: number): number {
    return Math.max(0, Math.max(1, this.rate) - this.left(now)) / this.rate;
  }

  #fill(now: number): void {
    this.#tokens = Math.min(this.capacity, this.#tokens + ((now - this.#at) / 1_000) * this.rate);
    this.#at = now;
  }
}
