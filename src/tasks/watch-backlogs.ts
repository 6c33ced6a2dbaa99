import { watchBacklogs } from '../events/watch-backlogs.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

/** Tells webhooks of queues whose backlog has grown past a threshold, or has cleared. */
export const watchBacklogsTask: Task = {
  name: 'watch-backlogs',
  every: 10_000,
  whenIdle: 60_000,
  share: 0.05,
  run: async ({ database }: Engine) => {
    const { crossed, cleared, webhooks } = await watchBacklogs(database.tasks);
    return { counts: { crossed, cleared }, next: webhooks > 0 ? 10_000 : undefined };
  },
};
