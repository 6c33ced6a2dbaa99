import { fireDue } from '../schedules/fire-due.js';
import type { Task } from './runner.js';

/** Milliseconds within which a schedule that was made meanwhile, here or elsewhere, is noticed. */
const NOTICED_MS = 1_000;

/**
 * Fires due schedules. While there is any it looks each second, and at the instant the next one is due; with none, seldom.
 */
export const fireSchedules: Task = {
  name: 'fire-schedules',
  every: NOTICED_MS,
  whenIdle: 6_000,
  run: async (engine) => {
    const { counts, again, next } = await fireDue(engine);
    return { counts, again, next: next === undefined ? undefined : Math.min(next, NOTICED_MS) };
  },
};
