import { setTimeout as pause } from 'node:timers/promises';
import { startActor } from './actor.js';
import { BOUNDED } from './queues.js';

const MOST = 8;
/** Of the changes that leave the queue without a bound until the next. */
const UNBOUNDED_SHARE = 0.2;
/** Between two changes; well above what `rules-bounds.ts` allows a change to take. */
const EVERY_MS = [3_500, 6_000] as const;
const LOOK_MS = 50;

const { random, client, isCalm, isStopping } = startActor();
await turn();
while (!isStopping()) await pause(LOOK_MS);
process.exit(0);

/** Lowers and raises the bound of a queue while its jobs are leased, and takes it away and brings it back. */
async function turn(): Promise<void> {
  while (!isCalm()) {
    const until = performance.now() + random.between(...EVERY_MS);
    while (performance.now() < until) {
      if (isCalm()) return;
      await pause(LOOK_MS);
    }
    await client.send({
      method: 'PUT',
      path: `/v1/queues/${BOUNDED}`,
      body: random.chance(UNBOUNDED_SHARE) ? { reset: ['maxInFlight'] } : { maxInFlight: random.between(1, MOST) },
    });
  }
}
