import type { Departure } from '../core/departure.js';
import type { ServiceError } from '../errors.js';

export interface EndingWait {
  readonly jobId: string;
  readonly milliseconds: number;
  readonly departure: Departure;
  /** Called when it begins to wait: it may be ended from then on, until what this answers is called. May throw a ServiceError. */
  readonly park: (end: (error: ServiceError) => void) => () => void;
}

/**
 * Callers that wait for a job to end. They hold no connection: settles of this instance tell them at once, and a task asks
 * the database about all of them together for ends that other instances brought about.
 */
export class Endings {
  private readonly waiting = new Map<string, Set<() => void>>();
  private closed = false;

  /**
   * Resolves when the job may have ended, when the caller is gone, after `milliseconds`, or when the service stops. Rejects when the
   * caller may not wait, or no longer.
   */
  wait({ jobId, milliseconds, departure, park }: EndingWait): Promise<void> {
    if (this.closed || departure.happened) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer);
        departure.unlisten(done);
        unpark();
        const others = this.waiting.get(jobId);
        others?.delete(done);
        if (others?.size === 0) this.waiting.delete(jobId);
      };
      const done = (): void => {
        leave();
        resolve();
      };
      const unpark = park((error) => {
        leave();
        reject(error);
      });
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
