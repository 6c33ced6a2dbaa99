import { setTimeout as pause } from 'node:timers/promises';
import { tokensIn } from '../answers.js';
import { leaseBody } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { ParkLoad, ReadLoad } from '../messages.js';
import { attempt, type Scene, timed, untilStopped } from './scene.js';

/** Long polls, until stopped; each begins anew when its time is up. */
export async function parkLoad(load: ParkLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  const body = Buffer.from(leaseBody({ maxJobs: 1, wait: `${load.waitSeconds}s` }));
  await untilStopped(scene, callers, () =>
    Promise.all(
      callers.map(async (caller, index) => {
        const path = `/v1/queues/${load.queues[index % load.queues.length]!}/lease`;
        while (!scene.stop.aborted) {
          const answer = await attempt(scene, 'long poll', () => caller.call('POST', path, body));
          if (answer === undefined) continue;
          scene.tally.count('polls');
          if (tokensIn(answer.text).length > 0) scene.tally.count('leased');
        }
      }),
    ),
  );
}

/** Reads, until stopped; clients begin at different paths. A scrape of metrics counts apart from the other reads. */
export async function readLoad(load: ReadLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  await untilStopped(scene, callers, () =>
    Promise.all(callers.map((caller, index) => readOn(caller, { load, scene, index }))),
  );
}

async function readOn(
  caller: Caller,
  { load, scene, index }: { readonly load: ReadLoad; readonly scene: Scene; readonly index: number },
): Promise<void> {
  const cursors = new Map<string, string>();
  for (let turn = index; !scene.stop.aborted; turn += 1) {
    const path = load.paths[turn % load.paths.length]!;
    const cursor = cursors.get(path);
    const name = path.startsWith('/metrics') ? 'scrape' : 'read';
    const answer = await timed(scene, name, () =>
      caller.call('GET', cursor === undefined ? path : `${path}&cursor=${encodeURIComponent(cursor)}`),
    );
    if (answer !== undefined) {
      scene.tally.count('reads');
      const next = /"nextCursor":"([^"]+)"/.exec(answer.text)?.[1];
      if (next === undefined) cursors.delete(path);
      else cursors.set(path, next);
    }
    await pause(load.pauseMs, undefined, { signal: scene.stop }).catch(() => undefined);
  }
}
