import { setMaxListeners } from 'node:events';
import type { FromGenerator, Load, ToGenerator } from './messages.js';
import { bareLoad } from './loads/bare.js';
import { ackLoad, enqueueLoad, leaseLoad } from './loads/calls.js';
import { cycleLoad } from './loads/cycle.js';
import { floodLoad } from './loads/flood.js';
import { parkLoad, readLoad } from './loads/park.js';
import { pickUpLoad } from './loads/pick-up.js';
import type { Scene } from './loads/scene.js';
import { streamLoad, unaryLoad } from './loads/streams.js';
import { mortalLoad } from './loads/mortal.js';
import { singleCycleLoad } from './loads/single-cycle.js';
import { Tally } from './tally.js';

/*
 * A load generator: a process that makes one load at a time, as its parent says. Started by `generator.ts`.
 */

interface Running {
  readonly tally: Tally;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

const tokens: string[] = [];
let running: Running | undefined;

process.on('message', (message: ToGenerator) => {
  answer(message).then(send, (error: unknown) => {
    send({ type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  });
});
process.on('disconnect', () => process.exit(0));

function send(message: FromGenerator): void {
  process.send?.(message);
}

async function answer(message: ToGenerator): Promise<FromGenerator> {
  switch (message.type) {
    case 'start':
      running = start(message.load);
      return { type: 'started' };
    case 'take':
      return { type: 'taken', taken: running!.tally.take() };
    case 'stop': {
      const { tally, stop, done } = running!;
      stop.abort();
      await done;
      return { type: 'stopped', taken: tally.take() };
    }
  }
}

function start(load: Load): Running {
  const tally = new Tally();
  const stop = new AbortController();
  // As many as there are clients.
  setMaxListeners(0, stop.signal);
  const done = run(load, { tally, stop: stop.signal, tokens });
  // Told again, to whoever asks for the load to stop.
  done.catch((error: unknown) => tally.error(error instanceof Error ? error.message : String(error)));
  return { tally, stop, done };
}

function run(load: Load, scene: Scene): Promise<void> {
  switch (load.kind) {
    case 'enqueue':
      return enqueueLoad(load, scene);
    case 'lease':
      return leaseLoad(load, scene);
    case 'ack':
      return ackLoad(load, scene);
    case 'cycle':
      return cycleLoad(load, scene);
    case 'mortal':
      return mortalLoad(load, scene);
    case 'single-cycle':
      return singleCycleLoad(load, scene);
    case 'pick-up':
      return pickUpLoad(load, scene);
    case 'park':
      return parkLoad(load, scene);
    case 'flood':
      return floodLoad(load, scene);
    case 'read':
      return readLoad(load, scene);
    case 'stream':
      return streamLoad(load, scene);
    case 'unary':
      return unaryLoad(load, scene);
    case 'bare':
      return bareLoad(load, scene);
  }
}
