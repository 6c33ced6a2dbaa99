/** How long news is gathered, so that whoever is told looks once for all of it, and all look together. */
const GATHER_MS = 200;
/** How often everybody looks without news: for what ends without a word, as leases do, and for a word that was lost. */
const TURN_MS = 5_000;
const MOST_MET = 100_000;

/** What somebody watches. */
export interface Watched {
  /** The queues that the last look has found. */
  readonly queueIds: ReadonlySet<number>;
  /** It has not found all of them. */
  readonly lacking: boolean;
  /** Whether jobs that become ready are news; if not, only changes of the queues and the regular turns are. */
  readonly forReady: boolean;
}

/**
 * Those who want to look again when something happens in queues, and lease nothing. It costs nothing while nobody watches. Invariants:
 * - News that comes after a look has begun is not lost: the wait after it ends at once.
 * - However much happens, nobody is told more often than every 200 ms, and all are told in one turn.
 * - Whoever lacks a queue is told of every change, and of the first word of each queue in which jobs are ready.
 */
export class Watches {
  readonly #all = new Set<Watch>();
  /** Queues that were told of while somebody watched. */
  readonly #met = new Set<number>();
  #turn: NodeJS.Timeout | undefined;
  #gathering: NodeJS.Timeout | undefined;
  #last = -Infinity;

  /** Jobs have become ready in these queues. */
  ready(queueIds: readonly number[] | 'all'): void {
    if (this.#all.size === 0) return;
    const unmet = queueIds !== 'all' && queueIds.some((id) => !this.#met.has(id));
    this.#tell(({ forReady, lacking, queueIds: own }) => {
      if (!forReady) return false;
      return queueIds === 'all' || (lacking && unmet) || queueIds.some((id) => own.has(id));
    });
    if (!unmet) return;
    if (this.#met.size > MOST_MET) this.#met.clear();
    for (const id of queueIds) this.#met.add(id);
  }

  /** These queues were made, changed, purged or closed. */
  changed(queueIds: readonly number[] | 'all'): void {
    if (this.#all.size === 0) return;
    this.#tell(({ lacking, queueIds: own }) => lacking || queueIds === 'all' || queueIds.some((id) => own.has(id)));
  }

  /** Begins to watch. Its `end` is to be called. */
  begin(): Watch {
    const watch = new Watch((one) => this.#end(one));
    this.#all.add(watch);
    this.#turn ??= setInterval(() => this.#tell(() => true), TURN_MS);
    return watch;
  }

  #tell(concerns: (watched: Watched) => boolean): void {
    let some = false;
    for (const watch of this.#all) {
      if (watch.watched !== undefined && !concerns(watch.watched)) continue;
      watch.toBeTold = true;
      some = true;
    }
    if (!some || this.#gathering !== undefined) return;
    const wait = Math.max(0, this.#last + GATHER_MS - performance.now());
    this.#gathering = setTimeout(() => this.#wake(), wait);
  }

  #wake(): void {
    this.#gathering = undefined;
    this.#last = performance.now();
    for (const watch of this.#all) if (watch.toBeTold) watch.tell();
  }

  #end(watch: Watch): void {
    this.#all.delete(watch);
    if (this.#all.size > 0) return;
    clearInterval(this.#turn);
    clearTimeout(this.#gathering);
    this.#turn = undefined;
    this.#gathering = undefined;
    this.#met.clear();
  }
}

/** One who watches. */
export class Watch {
  /** Everything is news until the first look has found what is watched. */
  watched: Watched | undefined;
  toBeTold = false;
  #told = false;
  #wake: (() => void) | undefined;

  constructor(private readonly onEnd: (watch: Watch) => void) {}

  /** To be called before each look. */
  look(): void {
    this.#told = false;
  }

  /** Resolves when it is time to look again, at the latest after that time. To be called after a look, with what it has found. */
  news(watched: Watched, milliseconds: number): Promise<void> {
    this.watched = watched;
    if (this.#told) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake?.(), milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }

  /** It is time to look again. */
  tell(): void {
    this.toBeTold = false;
    this.#told = true;
    this.#wake?.();
  }

  end(): void {
    this.onEnd(this);
  }
}
