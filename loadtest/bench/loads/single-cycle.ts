import { settledIn, tokensIn } from '../answers.js';
import { jobBody, leaseBody } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { SingleCycleLoad } from '../messages.js';
import { jobIdOf } from './calls.js';
import { Pace } from './pace.js';
import { type Scene, timed } from './scene.js';

const ENQUEUE = Buffer.from(jobBody());
const LEASE = Buffer.from(leaseBody({ maxJobs: 1, wait: '1s' }));

/** Each client enqueues one job, leases one, extends it if so asked, acks it, and so on until stopped. */
export async function singleCycleLoad(load: SingleCycleLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  const pace = new Pace(load.rate);
  await Promise.all(
    callers.map(async (caller) => {
      while (!scene.stop.aborted) {
        await pace.turn(scene.stop);
        await once(caller, load, scene);
      }
      await caller.close();
    }),
  );
}

async function once(caller: Caller, load: SingleCycleLoad, scene: Scene): Promise<void> {
  const enqueued = await timed(scene, 'enqueue', () => caller.call('POST', `/v1/queues/${load.queue}/jobs`, ENQUEUE));
  if (enqueued === undefined) return;
  scene.tally.count('enqueued');
  const leased = await timed(scene, 'lease', () => caller.call('POST', `/v1/queues/${load.queue}/lease`, LEASE));
  const token = leased === undefined ? undefined : tokensIn(leased.text)[0];
  if (token === undefined) return;
  scene.tally.count('leased');
  const path = `/v1/jobs/${jobIdOf(token)}`;
  const proof = `{"leaseToken":"${token}"}`;
  if (load.heartbeat === true) await timed(scene, 'heartbeat', () => caller.call('POST', `${path}/heartbeat`, proof));
  const acked = await timed(scene, 'ack', () => caller.call('POST', `${path}/ack`, proof));
  if (acked === undefined) return;
  if (settledIn(acked.text) === 1) scene.tally.count('acked');
  else scene.tally.error(`ack: ${acked.text}`);
}
