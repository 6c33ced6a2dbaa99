import { fanOut } from '../events/fan-out.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const LOOK_MS = 1_000;

/** Makes deliveries of events. While no tenant has a webhook there are none, and it hardly looks. */
export const fanOutEvents: Task = {
  name: 'fan-out-events',
  every: LOOK_MS,
  whenIdle: 15_000,
  run: async (engine: Engine) => {
    const { events, deliveries, isWanted, isMore } = await fanOut(engine);
    return { counts: { events, deliveries }, again: isMore, next: isWanted ? LOOK_MS : undefined };
  },
};
