import type { IncomingMessage } from 'node:http';

const DRAIN_BYTES = 32 * 1024 * 1024;
const DRAIN_MS = 5_000;

/**
 * Reads and drops what is left of a body: at most 32 MiB or 5 s of it.
 * @returns Whether the request was received to its end, so that the connection can go on.
 */
export function drainBody(request: IncomingMessage): Promise<boolean> {
  return new Promise((resolve) => {
    let length = 0;
    const timer = setTimeout(() => stop(false), DRAIN_MS);
    const stop = (whole: boolean): void => {
      clearTimeout(timer);
      request.off('data', drop).off('end', end).off('close', cut).off('error', cut).pause();
      resolve(whole);
    };
    const drop = (chunk: Buffer): void => {
      length += chunk.length;
      if (length > DRAIN_BYTES) stop(false);
    };
    const end = (): void => stop(true);
    const cut = (): void => stop(false);
    request.on('data', drop).on('end', end).on('close', cut).on('error', cut).resume();
  });
}
