import { fanOut } from '../events/fan-out.js';
import type { Interest } from '../events/interest.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const LOOK_MS = 1_000;

/** Makes deliveries of events, and sees whether there is any webhook. */
export function createFanOutEvents(interest: Interest): Task {
  return {
    name: 'fan-out-events',
    every: LOOK_MS,
    whenIdle: 15_000,
    run: async (engine: Engine) => {
      const { events, deliveries, isWanted, isMore } = await fanOut(engine);
      interest.seen(isWanted);
      return { counts: { events, deliveries }, again: isMore, next: isWanted ? LOOK_MS : undefined };
    },
  };
}
