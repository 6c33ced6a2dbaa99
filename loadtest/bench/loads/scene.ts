import { setTimeout as pause } from 'node:timers/promises';
import type { Caller } from '../caller.js';
import type { Answer } from '../lean-client.js';
import type { Tally } from '../tally.js';

/** What every load has at hand. */
export interface Scene {
  readonly tally: Tally;
  /** Aborted when the load is to end. */
  readonly stop: AbortSignal;
  /** Tokens of leases, handed from a `lease` load to the `ack` load after it. */
  readonly tokens: string[];
}

const AFTER_ERROR_MS = 50;

/** Whether the load is to end. A function, since what it answers changes while others run. */
export const isOver = ({ stop }: Scene): boolean => stop.aborted;

type Make = () => Promise<Answer>;

/**
 * Makes one call and answers it when its status is 2xx; otherwise counts an error, waits a moment and answers undefined. What
 * fails while the load is being ended is no error.
 */
export function attempt(scene: Scene, name: string, make: Make): Promise<Answer | undefined> {
  return run(scene, { name, began: undefined }, make);
}

/** The same, and records how long the call took under its name. */
export function timed(scene: Scene, name: string, make: Make): Promise<Answer | undefined> {
  return run(scene, { name, began: performance.now() }, make);
}

interface Measurement {
  readonly name: string;
  readonly began: number | undefined;
}

async function run(scene: Scene, { name, began }: Measurement, make: Make): Promise<Answer | undefined> {
  let fault: string;
  try {
    const answer = await make();
    if (answer.status >= 200 && answer.status < 300) {
      if (began !== undefined) scene.tally.latency(name, performance.now() - began);
      return answer;
    }
    fault = `${name}: ${answer.status} ${answer.text.slice(0, 300)}`;
  } catch (error) {
    fault = `${name}: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (scene.stop.aborted) return undefined;
  scene.tally.error(fault);
  await pause(AFTER_ERROR_MS);
  return undefined;
}

/** Closes the callers when the load is to end, so that long polls do not hold it up. */
export async function untilStopped(
  scene: Scene,
  callers: readonly Caller[],
  run: () => Promise<unknown>,
): Promise<void> {
  const close = (): void => void Promise.all(callers.map((caller) => caller.close()));
  scene.stop.addEventListener('abort', close, { once: true });
  await run();
}
