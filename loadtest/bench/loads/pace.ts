import { setTimeout as pause } from 'node:timers/promises';

const TICK_MS = 2;

/** Lets callers through at a rate, whatever became of those before: what is late is made up for. */
export class Pace {
  private readonly began = performance.now();
  private passed = 0;

  /** `rate` a second in all; undefined lets everything through at once. */
  constructor(private readonly rate: number | undefined) {}

  /** Waits for the turn of the next `count`, or until stopped. */
  async turn(stop: AbortSignal, count = 1): Promise<void> {
    if (this.rate === undefined) return;
    this.passed += count;
    const due = this.began + (this.passed / this.rate) * 1_000;
    while (!stop.aborted && performance.now() < due) {
      await pause(Math.max(TICK_MS, Math.min(200, due - performance.now())));
    }
  }
}
