import { setTimeout as pause } from 'node:timers/promises';
import { Departure } from '../core/departure.js';
import type { Engine } from '../hotpath/engine.js';
import { dueEndpoints } from './due-endpoints.js';
import { Pump } from './pump.js';
import { Slots } from './slots.js';

const MOST_AT_ONCE = 256;
const MOST_OF_TENANT = 64;
/** What is under way when the service stops may still end by itself. */
const GRACE_MS = 500;

export interface Round {
  readonly delivered: number;
  readonly failed: number;
  /** Whether more may be ready. */
  readonly isMore: boolean;
}

/** The deliveries of an instance: a pump for each endpoint that has something ready, so that none waits for another. */
export class Deliverer {
  private readonly pumps = new Map<string, Promise<void>>();
  private readonly slots = new Slots(MOST_AT_ONCE, MOST_OF_TENANT);
  private readonly departure = new Departure();
  private done = { delivered: 0, failed: 0 };
  private failure: { readonly error: unknown } | undefined;
  private isMore = false;

  /** @param isAwaited whether a round ends when its deliveries have ended, a batch for each endpoint, and not when they have begun */
  constructor(private readonly isAwaited: boolean) {}

  /** Starts what is due. Answers what has been done since the last round; throws what has failed since then but for deliveries. */
  async round(engine: Engine): Promise<Round> {
    this.isMore = false;
    const endpoints = await dueEndpoints(engine.database.tasks, [...this.pumps.keys()]);
    for (const endpoint of endpoints) {
      const parts = {
        engine,
        slots: this.slots,
        departure: this.departure,
        isOneBatch: this.isAwaited,
        onDone: (what: 'delivered' | 'failed') => (this.done[what] += 1),
      };
      this.pumps.set(endpoint.id, this.run(endpoint.id, new Pump(endpoint, parts)));
    }
    if (this.isAwaited) await Promise.all(this.pumps.values());
    const { done, failure } = this;
    this.done = { delivered: 0, failed: 0 };
    this.failure = undefined;
    if (failure !== undefined) throw failure.error;
    return { ...done, isMore: this.isMore };
  }

  /** Begins nothing more, and gives back what does not end soon. */
  async stop(): Promise<void> {
    const all = Promise.all(this.pumps.values());
    await Promise.race([all, pause(GRACE_MS, undefined, { ref: false })]);
    this.departure.tell();
    await all;
  }

  private async run(id: string, pump: Pump): Promise<void> {
    try {
      if (await pump.run()) this.isMore = true;
    } catch (error) {
      this.failure = { error };
    } finally {
      this.pumps.delete(id);
    }
  }
}
