import type { Connections } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { PRUNE_BODIES, PRUNE_DEAD, PRUNE_FINISHED, PRUNE_KEYS } from './prune-statements.js';
import type { Task } from './runner.js';

const BATCH = 2000;
const BEGINNING = { expiresAt: -8_640_000_000_000_000, key: '', queueId: 0 };

/**
 * Deletes what is past its queue's retention: finished jobs (their rows at ten minutes at the earliest, since a retried ack
 * must be answered), bodies of finished jobs, dead jobs; and idempotency keys past their window whose jobs no longer wait or run.
 */
export function createPrune(): Task {
  // Expired keys of unfinished jobs stay, so each run goes on where the last one ended, round and round.
  let place = BEGINNING;

  async function pruneKeys(connections: Connections): Promise<{ keys: number; examined: number }> {
    const [row] = await connections.query<{ keys: number; examined: number; last: typeof BEGINNING | null }>(
      PRUNE_KEYS,
      [place.expiresAt, place.queueId, place.key, BATCH],
    );
    place = row!.examined < BATCH ? BEGINNING : (row!.last ?? BEGINNING);
    return row!;
  }

  return {
    name: 'prune',
    every: 10_000,
    whenIdle: 30_000,
    run: async ({ database }: Engine) => {
      const finished = await prune(database.tasks, PRUNE_FINISHED);
      const bodies = await prune(database.tasks, PRUNE_BODIES);
      const dead = await prune(database.tasks, PRUNE_DEAD);
      const { keys, examined } = await pruneKeys(database.tasks);
      const again = Math.max(finished, bodies, dead, examined) === BATCH;
      return { counts: { finished, bodies, dead, keys }, again };
    },
  };
}

async function prune(connections: Connections, statement: typeof PRUNE_DEAD): Promise<number> {
  const [row] = await connections.query<{ pruned: number }>(statement, [BATCH]);
  return row!.pruned;
}
