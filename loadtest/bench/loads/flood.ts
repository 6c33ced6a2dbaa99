import { randomBytes } from 'node:crypto';
import { constants, setPriority } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { leaseBody } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { FloodLoad } from '../messages.js';
import { Pace } from './pace.js';
import { type Scene, untilStopped } from './scene.js';

const REFUSED = 429;
/** What the service asks of a refused poll, spread as it asks for it. */
const RETRY_MS = 1_000;
const RETRY_SPREAD_MS = 1_000;
const AFTER_ERROR_MS = 50;
/** Over which the polls begin, so that they do not end together. */
const BEGIN_MS = 4_000;

/** Long polls and large enqueues, until stopped: counts what is `refused` with 429 apart from what is taken, and from errors. */
export async function floodLoad(load: FloodLoad, scene: Scene): Promise<void> {
  // A flood comes from other machines: what making it costs here is not to be taken from the one that it is to disturb.
  setPriority(constants.priority.PRIORITY_LOW);
  const callers = callersFor(load.target, load.polls + load.producers);
  const poll = Buffer.from(leaseBody({ maxJobs: 1, wait: `${load.waitSeconds}s` }));
  const job = Buffer.from(JSON.stringify({ payload: incompressible(load.payloadBytes) }));
  const pace = new Pace(load.rate);
  const rest = (milliseconds: number): Promise<void> =>
    pause(milliseconds, undefined, { signal: scene.stop }).catch(() => undefined);
  const polling = async (caller: Caller): Promise<void> => {
    await rest(Math.random() * BEGIN_MS);
    while (!scene.stop.aborted) {
      const status = await call(scene, () => caller.call('POST', '/v1/queues/empty/lease', poll));
      scene.tally.count(status === REFUSED ? 'polls refused' : 'polls');
      if (status === REFUSED) await rest(RETRY_MS + Math.random() * RETRY_SPREAD_MS);
    }
  };
  const enqueueing = async (caller: Caller): Promise<void> => {
    while (!scene.stop.aborted) {
      await pace.turn(scene.stop);
      const status = await call(scene, () => caller.call('POST', '/v1/queues/large/jobs', job));
      scene.tally.count(status === REFUSED ? 'enqueues refused' : 'enqueues');
    }
  };
  await untilStopped(scene, callers, () =>
    Promise.all(callers.map((caller, index) => (index < load.polls ? polling(caller) : enqueueing(caller)))),
  );
}

/** Answers the status of a call that was taken or refused; undefined, and an error is counted, otherwise. */
async function call(scene: Scene, make: () => ReturnType<Caller['call']>): Promise<number | undefined> {
  let fault: string;
  try {
    const { status, text } = await make();
    if (status === REFUSED || (status >= 200 && status < 300)) return status;
    fault = `flood: ${status} ${text.slice(0, 300)}`;
  } catch (error) {
    fault = `flood: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (scene.stop.aborted) return undefined;
  scene.tally.error(fault);
  await pause(AFTER_ERROR_MS);
  return undefined;
}

/** A string that is so many bytes of JSON. */
function incompressible(bytes: number): string {
  return randomBytes(bytes)
    .toString('base64')
    .slice(0, bytes - 2);
}
