import { Deliverer } from '../events/deliverer.js';
import type { Interest } from '../events/interest.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

/**
 * Delivers events to the endpoints of webhooks.
 *
 * @param isAwaited whether a run ends with its deliveries: for a service that does nothing between two ticks
 */
export function createDeliverWebhooks(interest: Interest, isAwaited: boolean): Task {
  const deliverer = new Deliverer(isAwaited);
  return {
    name: 'deliver-webhooks',
    every: 1_000,
    run: async (engine: Engine) => {
      if (!interest.isWanted) return { counts: { delivered: 0, failed: 0 } };
      const { delivered, failed, isMore } = await deliverer.round(engine);
      return { counts: { delivered, failed }, again: isAwaited && isMore };
    },
    stop: () => deliverer.stop(),
  };
}
