import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import type { Entry, SeenLease, SettleItem, SettleOutcome } from './journal.js';

/** An enqueue call; `ids` in the order of `keys`, undefined when it was not answered with a success. */
export interface Offer {
  readonly source: string;
  readonly queue: string;
  readonly keys: readonly (string | null)[];
  readonly ids: readonly string[] | undefined;
}

/** A lease that a worker was answered. Instants of the monotonic clock in microseconds, here and below. */
export interface Delivery extends SeenLease {
  readonly source: string;
  readonly at: number;
}

/** One item of a settle call. */
export interface Settling extends SettleItem {
  readonly source: string;
  readonly begun: number;
  /** When it was answered, and what; undefined when it was not. */
  readonly answer: (SettleOutcome & { readonly at: number }) | undefined;
}

export interface Refusal {
  readonly source: string;
  readonly at: number;
  readonly path: string;
  /** 0 for no answer. */
  readonly status: number;
  readonly detail: string;
}

export interface Probe {
  readonly promise: string;
  readonly begun: number;
  readonly at: number;
  readonly answered: boolean;
}

/** What another tenant was told that asked for a job, or a lease, of the load's. */
export interface Intrusion {
  readonly at: number;
  readonly id: string;
  readonly asked: string;
  readonly status: number;
  /** A code, or the outcome of each item. */
  readonly told: readonly string[];
}

/** What the processes were told. */
export interface Testimony {
  readonly offers: readonly Offer[];
  readonly deliveries: readonly Delivery[];
  readonly settlings: readonly Settling[];
  readonly refusals: readonly Refusal[];
  readonly probes: readonly Probe[];
  readonly intrusions: readonly Intrusion[];
}

/** A job as it stands in the database. */
export interface JobRow {
  readonly id: string;
  readonly queue: string;
  readonly state: string;
  readonly epoch: number;
  readonly leaseId: string | null;
  /** How the last lease ended. */
  readonly ended: string;
  /** Attempts spent. */
  readonly attempt: number;
  /** When its last lease began, where the database keeps that; microseconds since 1970. */
  readonly startedAt: number | null;
  readonly key: string | null;
}

/** A lease that ended otherwise than by its ack. */
export interface AttemptRow {
  readonly id: string;
  readonly epoch: number;
  readonly leaseId: string;
  /** The first is 1. */
  readonly attempt: number;
  readonly outcome: string;
  /** Microseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
}

/** A look at the queue with a bound, all of one moment. Instants but `at` are microseconds since 1970. */
export interface BoundProbe {
  /** When it was over; microseconds of the monotonic clock. */
  readonly at: number;
  readonly clock: number;
  /** When the leases began whose time is not over, in this order. */
  readonly live: readonly number[];
  readonly waiting: number;
  readonly bound: number;
}

/** A bound in force from then on, until the next; microseconds since 1970. */
export interface BoundChange {
  readonly at: number;
  readonly bound: number;
}

/** A job seen waiting for its time after the nack of this epoch; microseconds since 1970. */
export interface DueRow {
  readonly id: string;
  readonly epoch: number;
  readonly dueAt: number;
}

/** A time in which a fault was at work; microseconds of the monotonic clock. */
export interface FaultWindow {
  readonly kind: string;
  readonly target: number;
  readonly begun: number;
  readonly ended: number;
}

export interface Evidence extends Testimony {
  readonly jobs: readonly JobRow[];
  readonly attempts: readonly AttemptRow[];
  readonly boundProbes: readonly BoundProbe[];
  /** In the order of time. */
  readonly boundChanges: readonly BoundChange[];
  readonly dues: readonly DueRow[];
  readonly windows: readonly FaultWindow[];
  /** Microseconds that the services are given to recover after a fault. */
  readonly recovery: number;
  /** Microseconds within which what is promised at once must be done. */
  readonly promptly: number;
}

/** Reads all journals of a directory. */
export async function readTestimony(directory: string): Promise<Testimony> {
  const witness = new Witness();
  for (const file of (await readdir(directory)).sort()) {
    const source = file.replace(/\.ndjson$/, '');
    const lines = (await readFile(path.join(directory, file), 'utf8')).split('\n');
    // The last line of a process that was killed may be cut short.
    for (const line of lines.slice(0, -1)) witness.hear(source, JSON.parse(line) as Entry);
  }
  return witness.testimony();
}

class Witness {
  private readonly offers = new Map<string, Offer>();
  private readonly settles = new Map<string, Settling[]>();
  private readonly deliveries: Delivery[] = [];
  private readonly refusals: Refusal[] = [];
  private readonly probes: Probe[] = [];
  private readonly intrusions: Intrusion[] = [];

  hear(source: string, entry: Entry): void {
    switch (entry.type) {
      case 'enqueue':
        this.offers.set(`${source} ${entry.call}`, { source, queue: entry.queue, keys: entry.keys, ids: undefined });
        return;
      case 'enqueued':
        this.offers.set(`${source} ${entry.call}`, { ...this.offers.get(`${source} ${entry.call}`)!, ids: entry.ids });
        return;
      case 'leased':
        for (const lease of entry.jobs) this.deliveries.push({ ...lease, source, at: entry.at });
        return;
      case 'settle':
        this.settles.set(
          `${source} ${entry.call}`,
          entry.items.map((item) => ({ ...item, source, begun: entry.at, answer: undefined })),
        );
        return;
      case 'settled': {
        const items = this.settles.get(`${source} ${entry.call}`)!;
        const answered = items.map((item, index) => ({ ...item, answer: { ...entry.outcomes[index]!, at: entry.at } }));
        this.settles.set(`${source} ${entry.call}`, answered);
        return;
      }
      case 'probe':
        this.probes.push(entry);
        return;
      case 'intrusion':
        this.intrusions.push(entry);
        return;
      case 'refused':
        this.refusals.push({ source, ...entry });
    }
  }

  testimony(): Testimony {
    return {
      offers: [...this.offers.values()],
      deliveries: this.deliveries,
      settlings: [...this.settles.values()].flat(),
      refusals: this.refusals,
      probes: this.probes,
      intrusions: this.intrusions,
    };
  }
}
