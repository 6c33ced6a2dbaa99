import type { Departure } from '../core/departure.js';
import type { Engine } from '../hotpath/engine.js';
import type { Claimed } from '../jobs/claim.js';
import { attempt, leaseDeliveries } from './attempt.js';
import { Circuit } from './circuit.js';
import { dueEndpoint, type Endpoint } from './due-endpoints.js';
import type { Slots } from './slots.js';

/** After so long it looks whether the webhook has been changed, paused or deleted. */
const LOOK_AGAIN_MS = 1_000;

export interface PumpParts {
  readonly engine: Engine;
  readonly slots: Slots;
  readonly departure: Departure;
  /** Stops after one batch: for a round that somebody waits for. */
  readonly isOneBatch: boolean;
  readonly onDone: (what: 'delivered' | 'failed') => void;
}

/**
 * Delivers what is ready for one endpoint, never more at once than it allows, until nothing is left or it fails too often. Any number of
 * instances may do so: how many deliveries are under way is the queue's own bound.
 */
export class Pump {
  private readonly running = new Set<Promise<void>>();
  private isStopped = false;
  private failure: { readonly error: unknown } | undefined;
  private lookedAt = performance.now();

  constructor(
    private endpoint: Endpoint,
    private readonly parts: PumpParts,
  ) {}

  /** Answers whether more may be ready. Throws what a delivery has thrown, when all of them have ended. */
  async run(): Promise<boolean> {
    let isMore = false;
    try {
      if (this.endpoint.isProbe) await this.probe();
      else isMore = await this.deliverAll();
    } finally {
      while (this.running.size > 0) await Promise.race(this.running);
    }
    if (this.failure !== undefined) throw this.failure.error;
    return isMore && !this.isStopped;
  }

  private async probe(): Promise<void> {
    const circuit = new Circuit(this.parts.engine.database.tasks, this.endpoint.id);
    if (await circuit.takeProbe()) await this.start(1);
  }

  private async deliverAll(): Promise<boolean> {
    for (;;) {
      const free = this.endpoint.maxInFlight - this.running.size;
      const started = free > 0 ? await this.start(free) : 0;
      if (this.parts.isOneBatch) return started === free;
      if (this.running.size === 0) return false;
      await Promise.race(this.running);
      if (this.isOver() || !(await this.lookAgain())) return false;
    }
  }

  private isOver(): boolean {
    return this.isStopped || this.failure !== undefined || this.parts.departure.happened;
  }

  private async lookAgain(): Promise<boolean> {
    if (performance.now() - this.lookedAt < LOOK_AGAIN_MS) return true;
    this.lookedAt = performance.now();
    const found = await dueEndpoint(this.parts.engine.database.tasks, this.endpoint.id);
    if (found !== undefined) this.endpoint = found;
    return found !== undefined;
  }

  /** Leases and begins up to `most` deliveries; answers how many. */
  private async start(most: number): Promise<number> {
    const { engine, slots, departure } = this.parts;
    const { tenantId } = this.endpoint;
    const places = slots.take(tenantId, most);
    let claimed: readonly Claimed[] = [];
    try {
      if (places > 0) claimed = await leaseDeliveries(engine, this.endpoint, { most: places, departure });
    } finally {
      slots.give(tenantId, places - claimed.length);
    }
    for (const each of claimed) {
      const delivery = this.deliver(each).finally(() => {
        slots.give(tenantId, 1);
        this.running.delete(delivery);
      });
      this.running.add(delivery);
    }
    return claimed.length;
  }

  private async deliver(claimed: Claimed): Promise<void> {
    const { engine, departure, onDone } = this.parts;
    try {
      const attempted = await attempt(engine, this.endpoint, { claimed, departure });
      if (attempted === 'delivered') onDone('delivered');
      else {
        if (attempted !== 'ended') onDone('failed');
        if (attempted !== 'failed') this.isStopped = true;
        // The next that arrives has something to tell the circuit.
        this.endpoint = { ...this.endpoint, hasFailed: true };
      }
    } catch (error) {
      this.failure = { error };
    }
  }
}
