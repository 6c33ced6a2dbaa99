import { settledIn, tokensIn } from '../answers.js';
import { ackItems, batchBody, jobBody, leaseBody } from '../bodies.js';
import { callersFor } from '../caller.js';
import type { AckLoad, EnqueueLoad, LeaseLoad } from '../messages.js';
import { type Scene, timed } from './scene.js';

/** Enqueues until stopped. */
export async function enqueueLoad(load: EnqueueLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  const [path, body] =
    load.batch === 1
      ? [load.path ?? `/v1/queues/${load.queue}/jobs`, Buffer.from(jobBody())]
      : [load.path ?? '/v1/jobs/batch', batchBody([load.queue], load.batch)];
  await Promise.all(
    callers.map(async (caller) => {
      while (!scene.stop.aborted) {
        const answer = await timed(scene, 'enqueue', () => caller.call('POST', path, body));
        if (answer !== undefined) scene.tally.count('enqueued', load.batch);
      }
      await caller.close();
    }),
  );
}

/** Leases until stopped or nothing is left; keeps the tokens. */
export async function leaseLoad(load: LeaseLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  const body = Buffer.from(leaseBody({ maxJobs: load.batch, wait: '0s' }));
  await Promise.all(
    callers.map(async (caller) => {
      while (!scene.stop.aborted) {
        const answer = await timed(scene, 'lease', () => caller.call('POST', `/v1/queues/${load.queue}/lease`, body));
        if (answer === undefined) continue;
        const tokens = tokensIn(answer.text);
        if (tokens.length === 0) break;
        scene.tally.count('leased', tokens.length);
        scene.tokens.push(...tokens);
      }
      scene.tally.finish();
      await caller.close();
    }),
  );
}

/** Acks until stopped or nothing is left; single calls by the form for one job, batches by the mixed one. */
export async function ackLoad(load: AckLoad, scene: Scene): Promise<void> {
  const callers = callersFor(load.target, load.clients);
  await Promise.all(
    callers.map(async (caller) => {
      while (!scene.stop.aborted && scene.tokens.length > 0) {
        const tokens = scene.tokens.splice(-load.batch);
        const [path, body] =
          load.batch === 1
            ? [`/v1/jobs/${jobIdOf(tokens[0]!)}/ack`, `{"leaseToken":"${tokens[0]!}"}`]
            : ['/v1/leases/settle', `{"acks":${ackItems(tokens)}}`];
        const answer = await timed(scene, 'ack', () => caller.call('POST', path, body));
        if (answer === undefined) continue;
        const done = settledIn(answer.text);
        scene.tally.count('acked', done);
        if (done < tokens.length) scene.tally.error(`ack: ${answer.text.slice(0, 300)}`);
      }
      scene.tally.finish();
      await caller.close();
    }),
  );
}

/** A token names its job; the same bytes that `lease-token.ts` writes. */
export function jobIdOf(token: string): string {
  const hex = Buffer.from(token, 'base64url').toString('hex', 5, 21);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
