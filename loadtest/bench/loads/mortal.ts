import { randomUUID } from 'node:crypto';
import { settledIn, tokensIn } from '../answers.js';
import { leaseBody, payload } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { MortalLoad } from '../messages.js';
import { Pace } from './pace.js';
import { attempt, isOver, type Scene } from './scene.js';

/** Jobs with keys of their own that die at their first failure, and one administrative act for each batch of them, until stopped. */
export async function mortalLoad(load: MortalLoad, scene: Scene): Promise<void> {
  const [caller] = callersFor(load.target, 1) as [Caller];
  const pace = new Pace(load.rate);
  for (let turn = 0; !isOver(scene); turn += 1) {
    await pace.turn(scene.stop, load.batch);
    if (!isOver(scene)) await die(caller, load, scene);
    if (!isOver(scene)) await act(caller, { queue: load.queue, turn }, scene);
  }
  await caller.close();
}

async function die(caller: Caller, { queue, batch }: MortalLoad, scene: Scene): Promise<void> {
  const jobs = Array.from(
    { length: batch },
    () => `{"queue":"${queue}","idempotencyKey":"${randomUUID()}","payload":${payload()}}`,
  );
  const enqueued = await attempt(scene, 'enqueue with keys', () =>
    caller.call('POST', '/v1/jobs/batch', `{"jobs":[${jobs.join(',')}]}`),
  );
  if (enqueued === undefined) return;
  const leased = await attempt(scene, 'lease', () =>
    caller.call('POST', `/v1/queues/${queue}/lease`, leaseBody({ maxJobs: batch, wait: '1s' })),
  );
  const tokens = leased === undefined ? [] : tokensIn(leased.text);
  if (tokens.length === 0) return;
  const items = tokens.map((token) => `{"leaseToken":"${token}","final":true,"error":{"message":"it is to die"}}`);
  const nacked = await attempt(scene, 'nack', () =>
    caller.call('POST', '/v1/leases/nack', `{"items":[${items.join(',')}]}`),
  );
  if (nacked !== undefined) scene.tally.count('died', settledIn(nacked.text));
}

/** A setting that is another one each time, and so is written down each time. */
async function act(caller: Caller, { queue, turn }: { queue: string; turn: number }, scene: Scene): Promise<void> {
  const body = `{"maxAttempts":${5 + (turn % 2)}}`;
  const answer = await attempt(scene, 'act', () => caller.call('PUT', `/v1/queues/${queue}`, body));
  if (answer !== undefined) scene.tally.count('acts');
}
