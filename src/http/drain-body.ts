import type { IncomingMessage } from 'node:http';

const DRAIN_BYTES = 32 * 1024 * 1024;
const DRAIN_MS = 20_000;
/** What is read is garbage, and the collector of it holds up everybody: at 16 MiB a second a neighbour waited three times as long. */
const BYTES_A_SECOND = 4 * 1024 * 1024;
/** Shorter pauses are not worth a timer. */
const LEAST_PAUSE_MS = 5;

/**
 * Reads and drops what is left of bodies that nobody wants. All of them together at a bounded pace: whoever sends large bodies to be refused is
 * held up by that, and not the others.
 */
export class BodyDrain {
  /** When the pace allows to go on: milliseconds of this process. */
  #freeAt = 0;

  /**
   * Drops at most 32 MiB or 20 s of a body.
   * @returns Whether the request was received to its end, so that the connection can go on.
   */
  drain(request: IncomingMessage): Promise<boolean> {
    return new Promise((resolve) => {
      let length = 0;
      let pause: NodeJS.Timeout | undefined;
      const timer = setTimeout(() => stop(false), DRAIN_MS);
      const stop = (whole: boolean): void => {
        clearTimeout(timer);
        clearTimeout(pause);
        request.off('data', drop).off('end', end).off('close', cut).off('error', cut).pause();
        resolve(whole);
      };
      const drop = (chunk: Buffer): void => {
        length += chunk.length;
        if (length > DRAIN_BYTES) return stop(false);
        const wait = this.#pauseAfter(chunk.length);
        if (wait < LEAST_PAUSE_MS) return;
        request.pause();
        pause = setTimeout(() => request.resume(), wait);
      };
      const end = (): void => stop(true);
      const cut = (): void => stop(false);
      request.on('data', drop).on('end', end).on('close', cut).on('error', cut).resume();
    });
  }

  /** Milliseconds until so much more is within the pace. */
  #pauseAfter(bytes: number): number {
    const now = performance.now();
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes / BYTES_A_SECOND) * 1_000;
    return this.#freeAt - now;
  }
}
