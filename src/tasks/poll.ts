import { poll } from '../hotpath/poll.js';
import type { Task } from './runner.js';

/** The backstop of wake-ups: at the latest a second after a job is ready, whoever waits for it finds it. */
export const pollForWork: Task = {
  name: 'poll',
  every: 900,
  run: async ({ database, waiters, queues, clock }) => {
    await poll({ connections: database.claim, waiters, queues, clock });
    return { counts: {} };
  },
};
