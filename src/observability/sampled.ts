import { Counter, Gauge, type Registry } from 'prom-client';

/** For how long what a look at the database has found is news. */
export class Validity {
  private until = 0;

  /** What was found just now is news for so many milliseconds. */
  begin(milliseconds: number): void {
    this.until = performance.now() + milliseconds;
  }

  /** Nothing is known any more. */
  end(): void {
    this.until = 0;
  }

  get isOver(): boolean {
    return performance.now() >= this.until;
  }
}

export interface SampledOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly Label[];
  readonly registers: Registry[];
}

/** A gauge of what was found in the database. Its series vanish when that is no longer known, rather than stand still. */
export function sampledGauge<Label extends string>(validity: Validity, options: SampledOptions<Label>): Gauge<Label> {
  return new Gauge({ ...options, collect: forgetting(validity, options) });
}

/** The same of counters that the database keeps. */
export function sampledCounter<Label extends string>(
  validity: Validity,
  options: SampledOptions<Label>,
): Counter<Label> {
  return new Counter({ ...options, collect: forgetting(validity, options) });
}

interface Forgettable {
  reset(): void;
  remove(): void;
}

function forgetting(validity: Validity, { labelNames }: { readonly labelNames: readonly string[] }) {
  return function (this: Forgettable): void {
    if (!validity.isOver) return;
    this.reset();
    // Without labels a reset leaves a series that says 0.
    if (labelNames.length === 0) this.remove();
  };
}
