import { setTimeout as pause } from 'node:timers/promises';
import { settledIn, tokensIn } from '../answers.js';
import { ackItems, batchBody, leaseBody } from '../bodies.js';
import { type Caller, callersFor } from '../caller.js';
import type { Answer } from '../lean-client.js';
import type { CycleLoad } from '../messages.js';
import { Pace } from './pace.js';
import { isOver, type Scene, timed } from './scene.js';

const MOST_QUEUES_IN_A_LEASE = 100;
const CROWDED_MS = 1;

/**
 * Producers and workers at once, until stopped; neither runs ahead of the other by more than `depth`, so that what stands in the
 * queues stays what it was; workers ack what they have before they end. A worker's loop is one call: it acks what it has and leases what comes. The jobs that are enqueued
 * and not yet leased are a peak, `waiting`.
 */
export async function cycleLoad(load: CycleLoad, scene: Scene): Promise<void> {
  const state = { open: 0, waiting: 0 };
  const producers = callersFor(load.target, load.producers);
  const workers = callersFor(load.target, load.workers);
  const pace = new Pace(load.rate);
  const produced = Promise.all(producers.map((caller, nth) => produce(caller, { load, scene, state, pace, nth })));
  const worked = Promise.all(workers.map((caller, nth) => work(caller, { load, scene, state, nth })));
  await Promise.all([produced, worked]);
  await Promise.all([...producers, ...workers].map((caller) => caller.close()));
}

interface Part {
  readonly load: CycleLoad;
  readonly scene: Scene;
  readonly state: { open: number; waiting: number };
  readonly nth: number;
}

async function produce(caller: Caller, { load, scene, state, pace, nth }: Part & { pace: Pace }): Promise<void> {
  const bodies = bodiesFor(load, nth);
  for (let turn = 0; !isOver(scene); turn += 1) {
    await pace.turn(scene.stop, load.batch);
    while (state.open >= load.depth && !isOver(scene)) await pause(CROWDED_MS);
    if (isOver(scene)) return;
    state.open += load.batch;
    const answer = await timed(scene, 'enqueue batch', () =>
      caller.call('POST', '/v1/jobs/batch', bodies[turn % bodies.length]),
    );
    if (answer === undefined) {
      state.open -= load.batch;
      continue;
    }
    scene.tally.count('enqueued', load.batch);
    state.waiting += load.batch;
    scene.tally.peak('waiting', state.waiting);
  }
}

/** Made once: a batch for each queue in turn, or, when batches are spread, each from the queue on at which the one before ended. */
function bodiesFor({ queues, batch, producers, spread = false }: CycleLoad, nth: number): Buffer[] {
  if (!spread)
    return queues
      .filter((_, index) => index % producers === nth % queues.length)
      .map((queue) => batchBody([queue], batch));
  const different = Math.max(1, Math.ceil(queues.length / batch / producers));
  return Array.from({ length: different }, (_, index) => batchBody(queues, batch, (index * producers + nth) * batch));
}

async function work(caller: Caller, { load, scene, state, nth }: Part): Promise<void> {
  const queues = queuesFor(load, nth);
  let acks: string[] = [];
  while (!isOver(scene)) {
    while (state.open < -load.depth && !isOver(scene)) await pause(CROWDED_MS);
    const body = leaseBody({ queues, maxJobs: load.batch, wait: '1s', acks });
    // Acked before the answer comes, which may be long in coming when no producer goes on for that.
    state.open -= acks.length;
    const answer = await timed(scene, 'lease with acks', () => caller.call('POST', '/v1/lease', body));
    if (answer === undefined) {
      state.open += acks.length;
      continue;
    }
    countAcks(scene, acks, answer);
    acks = tokensIn(answer.text);
    scene.tally.count('leased', acks.length);
    state.waiting -= acks.length;
  }
  // What would stay leased is missing from the queue in the next measurement.
  if (acks.length === 0) return;
  const answer = await caller.call('POST', '/v1/leases/settle', `{"acks":${ackItems(acks)}}`);
  countAcks(scene, acks, answer);
}

function countAcks({ tally }: Scene, acks: readonly string[], { text }: Answer): void {
  if (acks.length === 0) return;
  const done = settledIn(text);
  tally.count('acked', done);
  if (done < acks.length) tally.error(`ack in a lease: ${text.slice(-300)}`);
}

/** All of them, or a hundred, so that the workers together have them all. */
function queuesFor({ queues }: CycleLoad, nth: number): string[] {
  if (queues.length <= MOST_QUEUES_IN_A_LEASE) return [...queues];
  const stretches = Math.ceil(queues.length / MOST_QUEUES_IN_A_LEASE);
  const first = (nth % stretches) * MOST_QUEUES_IN_A_LEASE;
  return queues.slice(first, first + MOST_QUEUES_IN_A_LEASE);
}
