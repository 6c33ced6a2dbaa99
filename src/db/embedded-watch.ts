import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from './embedded-log.js';
import type { ServerProcess } from './embedded-process.js';

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;

/**
 * Starts Postgres again whenever it has ended without being told to, for as long as it takes; meanwhile calls to the service
 * are answered UNAVAILABLE. Answers how to stop it for good.
 */
export function keepRunning(
  first: ServerProcess,
  restart: () => Promise<ServerProcess>,
  log: Log,
): () => Promise<void> {
  const stopping = new AbortController();
  const isStopping = (): boolean => stopping.signal.aborted;
  let current = first;
  const watched = watch();
  return async () => {
    stopping.abort();
    await current.stop();
    await watched;
  };

  async function watch(): Promise<void> {
    for (;;) {
      await current.end;
      if (isStopping()) return;
      const { exitCode, signalCode } = current.child;
      log.error({ code: exitCode, signal: signalCode }, 'Postgres has ended by itself; starting it again');
      const next = await started();
      if (next === undefined) return;
      current = next;
      log.warn('Postgres runs again');
    }
  }

  async function started(): Promise<ServerProcess | undefined> {
    for (let wait = FIRST_PAUSE_MS; !isStopping(); wait = Math.min(LONGEST_PAUSE_MS, wait * 2)) {
      try {
        const server = await restart();
        if (!isStopping()) return server;
        await server.stop();
      } catch (error) {
        log.error({ err: error }, 'Postgres could not be started again; the next try follows');
        await pause(wait, undefined, { signal: stopping.signal }).catch(() => undefined);
      }
    }
    return undefined;
  }
}
