import { Deliverer } from '../events/deliverer.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const LOOK_MS = 1_000;

/**
 * Delivers events to the endpoints of webhooks.
 *
 * @param isAwaited whether a run ends with its deliveries: for a service that does nothing between two ticks
 */
export function createDeliverWebhooks(isAwaited: boolean): Task {
  const deliverer = new Deliverer(isAwaited);
  return {
    name: 'deliver-webhooks',
    every: LOOK_MS,
    whenIdle: 15_000,
    run: async (engine: Engine) => {
      const { delivered, failed, isMore, isWanted } = await deliverer.round(engine);
      return { counts: { delivered, failed }, again: isAwaited && isMore, next: isWanted ? LOOK_MS : undefined };
    },
    stop: () => deliverer.stop(),
  };
}
