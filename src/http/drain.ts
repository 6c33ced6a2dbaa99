import type { Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connections } from './connections.js';

export interface DrainOptions {
  /** How long to go on serving after readiness has turned false, so that load balancers notice. */
  readonly delaySeconds: number;
  /** When the last connection is cut, counted from the call; longer than the delay. */
  readonly deadlineSeconds: number;
  /** Called when no new request is taken any more; wakes long polls, so that they answer. */
  readonly beforeClose: () => Promise<void>;
}

export interface DrainState {
  /** Readiness is false and every answer closes its connection. */
  draining: boolean;
  /** New requests are answered 503. */
  refusing: boolean;
}

const POLL_MS = 20;
/** What a half-sent request is given to become whole, so that it is refused in words. */
const HALF_SENT_MS = 1_000;
const MARGIN_MS = 300;

/**
 * Shuts the listener down without losing an answer: readiness turns false, then new requests are refused, then nothing
 * new is accepted, then running requests are answered. Whoever is too slow is cut off, so that it ends before the deadline.
 */
export async function drain(
  parts: { readonly server: Server; readonly connections: Connections; readonly state: DrainState },
  options: DrainOptions,
): Promise<void> {
  const { server, connections, state } = parts;
  const deadline = performance.now() + options.deadlineSeconds * 1000 - MARGIN_MS;
  state.draining = true;
  connections.closeAfterAnswers();
  await sleep(Math.min(options.delaySeconds * 1000, Math.max(0, deadline - performance.now())));
  state.refusing = true;
  server.close();
  const woken = outcomeOf(options.beforeClose());
  await settle(parts, deadline);
  connections.destroyAll();
  const answered = new AbortController();
  const late = sleep(Math.max(0, deadline - performance.now()), { failure: undefined }, { signal: answered.signal });
  const { failure } = await Promise.race([woken, late]);
  // A timer left behind would keep the process alive until the deadline.
  answered.abort();
  if (failure !== undefined) throw failure;
}

/** A promise that never rejects, so that it can be left alone until the connections are dealt with. */
async function outcomeOf(work: Promise<void>): Promise<{ readonly failure: Error | undefined }> {
  try {
    await work;
    return { failure: undefined };
  } catch (error) {
    return { failure: error instanceof Error ? error : new Error(String(error)) };
  }
}

async function settle(
  parts: { readonly server: Server; readonly connections: Connections },
  deadline: number,
): Promise<void> {
  const started = performance.now();
  const { server, connections } = parts;
  while (connections.open > 0 && performance.now() < deadline) {
    server.closeIdleConnections();
    const now = performance.now();
    if (now - started > Math.min(HALF_SENT_MS, (deadline - started) / 2)) connections.destroyQuiet();
    if (now - started > (deadline - started) / 2) connections.destroyIncomplete();
    await sleep(POLL_MS);
  }
}
