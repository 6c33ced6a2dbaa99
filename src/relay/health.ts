import type { Log } from '../observability/log.js';
import type { RelayMetrics, Side } from './metrics.js';

/** Looked at more often than this, a side that says nothing of itself is away. */
const LATELY_MS = 45_000;

interface State {
  readonly ok: boolean;
  readonly detail: string;
  readonly at: number;
}

/** What is known of the two sides between which the relay stands. A change is logged once. */
export class Health {
  private readonly sides: Record<Side, State>;

  constructor(private readonly parts: { readonly log: Log; readonly metrics: RelayMetrics }) {
    const unknown = { ok: false, detail: 'not reached yet', at: performance.now() };
    this.sides = { database: unknown, stint: unknown };
  }

  /** The side has answered. */
  ok(side: Side): void {
    if (!this.sides[side].ok) this.parts.log.info({ side }, 'reached');
    this.set(side, true, 'ok');
  }

  /** The side could not be reached, or does not do what it should. `detail` says why, and is shown to everybody. */
  failed(side: Side, detail: string, error?: unknown): void {
    this.parts.metrics.failure(side);
    const before = this.sides[side];
    if (before.ok || before.detail !== detail)
      this.parts.log.warn({ side, detail, ...(error !== undefined && { err: error }) }, 'not reached');
    this.set(side, false, detail);
  }

  isOk(side: Side): boolean {
    return this.sides[side].ok;
  }

  /** Whether both sides have been reached lately. */
  ready(): { readonly ok: boolean; readonly detail: string } {
    const faults = Object.entries(this.sides).flatMap(([side, { ok, detail, at }]) => {
      const isLate = performance.now() - at > LATELY_MS;
      return ok && !isLate ? [] : [`${side}: ${isLate ? `nothing heard for ${LATELY_MS / 1_000} s` : detail}`];
    });
    return { ok: faults.length === 0, detail: faults.length === 0 ? 'ok' : faults.join('; ') };
  }

  private set(side: Side, ok: boolean, detail: string): void {
    this.sides[side] = { ok, detail, at: performance.now() };
    this.parts.metrics.reachable(side, ok);
  }
}
