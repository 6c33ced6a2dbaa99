import { tokensIn } from '../answers.js';
import { jobBody, leaseBody } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { PickUpLoad } from '../messages.js';
import { Pace } from './pace.js';
import { attempt, type Scene, timed, untilStopped } from './scene.js';

const ENQUEUERS = 20;

/**
 * Paced single enqueues to parked workers, until stopped. `pick-up` is the time from the answer to an enqueue until its job is
 * in a worker's hands, 0 when it was there first; `delivery` the time from before the enqueue.
 */
export async function pickUpLoad(load: PickUpLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, ENQUEUERS + load.workers);
  const jobs = new Map<number, { asked: number; answered?: number; received?: number }>();
  const pace = new Pace(load.rate);
  let next = 0;

  const settle = (n: number): void => {
    const job = jobs.get(n)!;
    if (job.answered === undefined || job.received === undefined) return;
    scene.tally.latency('pick-up', Math.max(0, job.received - job.answered));
    scene.tally.latency('delivery', job.received - job.asked);
    jobs.delete(n);
  };
  const enqueue = async (caller: Caller): Promise<void> => {
    while (!scene.stop.aborted) {
      await pace.turn(scene.stop);
      const n = (next += 1);
      const body = jobBody(n);
      const job: { asked: number; answered?: number; received?: number } = { asked: performance.now() };
      jobs.set(n, job);
      const answer = await timed(scene, 'enqueue', () => caller.call('POST', `/v1/queues/${load.queue}/jobs`, body));
      if (answer === undefined) continue;
      scene.tally.count('enqueued');
      job.answered = performance.now();
      settle(n);
    }
  };
  const work = async (caller: Caller): Promise<void> => {
    let acks: string[] = [];
    while (!scene.stop.aborted) {
      const body = leaseBody({ maxJobs: 1, wait: '20s', acks });
      const answer = await attempt(scene, 'lease', () => caller.call('POST', `/v1/queues/${load.queue}/lease`, body));
      if (answer === undefined) continue;
      const now = performance.now();
      acks = tokensIn(answer.text);
      for (const [, n] of answer.text.matchAll(/"payload":\{"n":(\d+)/g)) {
        const job = jobs.get(Number(n));
        if (job === undefined) continue;
        scene.tally.count('leased');
        job.received = now;
        settle(Number(n));
      }
    }
  };
  await untilStopped(scene, callers, () =>
    Promise.all(callers.map((caller, index) => (index < ENQUEUERS ? enqueue(caller) : work(caller)))),
  );
}
