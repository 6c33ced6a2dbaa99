/** Which queues may have work, as far as this instance has heard. A queue it knows nothing of may have. */
export class WorkFlags {
  private readonly empties = new Set<number>();
  private readonly heard = new Map<number, number>();
  private heardOfAll = 0;
  /** Rises with every word of work. */
  version = 1;

  /** Work may be there from now on. */
  mark(queueIds: readonly number[] | 'all'): void {
    this.version += 1;
    if (queueIds === 'all') {
      this.heardOfAll = this.version;
      this.empties.clear();
      return;
    }
    for (const id of queueIds) {
      this.empties.delete(id);
      this.heard.set(id, this.version);
    }
    if (this.heard.size > MOST) this.forget();
  }

  /** A look that began at `version` found nothing left: true unless something was heard since. */
  empty(queueId: number, version: number): void {
    if ((this.heard.get(queueId) ?? 0) > version || this.heardOfAll > version) return;
    this.empties.add(queueId);
    this.heard.delete(queueId);
  }

  /** The same for many. */
  polled(queueIds: readonly number[], version: number): void {
    for (const id of queueIds) this.empty(id, version);
  }

  knownEmpty(queueId: number): boolean {
    return this.empties.has(queueId);
  }

  private forget(): void {
    this.heard.clear();
    this.empties.clear();
    this.heardOfAll = this.version;
  }
}

const MOST = 200_000;
