import type { Task } from './runner.js';

/** Keeps what claims have to walk over short, whatever old snapshots are held: see `Floors`. Costs nothing while nothing is leased. */
export const raiseFloors: Task = {
  name: 'raise-floors',
  every: 250,
  run: async ({ database, floors }) => ({ counts: { ...(await floors.raise(database.tasks)) } }),
};
