import type { Departure } from '../core/departure.js';

/**
 * Callers that wait for a job to end. They hold no connection: settles of this instance tell them at once, and a task asks
 * the database about all of them together for ends that other instances brought about.
 */
export class Endings {
  private readonly waiting = new Map<string, Set<() => void>>();
  private closed = false;

  /** Resolves when the job may have ended, when the caller is gone, after `milliseconds`, or when the service stops. */
  wait(jobId: string, milliseconds: number, departure: Departure): Promise<void> {
    if (this.closed || departure.happened) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        departure.unlisten(done);
        const others = this.waiting.get(jobId);
        others?.delete(done);
        if (others?.size === 0) this.waiting.delete(jobId);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      departure.listen(done);
      let all = this.waiting.get(jobId);
      if (all === undefined) this.waiting.set(jobId, (all = new Set()));
      all.add(done);
    });
  }

  /** Tells those who wait that these jobs may have ended. */
  ended(jobIds: Iterable<string>): void {
    if (this.waiting.size === 0) return;
    for (const id of jobIds) for (const done of [...(this.waiting.get(id) ?? [])]) done();
  }

  /** The jobs that somebody waits for. */
  jobIds(): string[] {
    return [...this.waiting.keys()];
  }

  /** Wakes everybody; whoever asks afterwards does not wait. */
  close(): void {
    this.closed = true;
    this.ended(this.jobIds());
  }
}
