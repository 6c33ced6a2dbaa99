import { openSync, writeSync } from 'node:fs';

export type Verb = 'ack' | 'nack' | 'release' | 'heartbeat';

/** A lease as its worker was told of it. */
export interface SeenLease {
  readonly id: string;
  readonly token: string;
  readonly epoch: number;
  /** Microseconds since 1970, the database's clock. */
  readonly expiresAt: number;
}

export interface SettleItem {
  readonly verb: Verb;
  readonly id: string;
  readonly token: string;
  readonly epoch: number;
}

export interface SettleOutcome {
  readonly outcome: string;
  readonly settledAs?: string | undefined;
  /** Of a heartbeat; microseconds since 1970. */
  readonly expiresAt?: number | undefined;
}

/** What a process was about to do, or was told. `at` and `begun` are microseconds of the machine's monotonic clock. */
export type Entry =
  | {
      readonly type: 'enqueue';
      readonly call: number;
      readonly at: number;
      readonly queue: string;
      readonly keys: (string | null)[];
    }
  | {
      readonly type: 'enqueued';
      readonly call: number;
      readonly at: number;
      readonly status: number;
      readonly ids: string[];
    }
  | { readonly type: 'leased'; readonly begun: number; readonly at: number; readonly jobs: SeenLease[] }
  | { readonly type: 'settle'; readonly call: number; readonly at: number; readonly items: SettleItem[] }
  | { readonly type: 'settled'; readonly call: number; readonly at: number; readonly outcomes: SettleOutcome[] }
  /** A promise put to the test; `answered` is false when the call that would have shown it got no answer. */
  | {
      readonly type: 'probe';
      readonly promise: string;
      readonly begun: number;
      readonly at: number;
      readonly answered: boolean;
    }
  /** What another tenant was told that asked for a job, or a lease, of this one; `told` is a code, or an outcome for each item. */
  | {
      readonly type: 'intrusion';
      readonly at: number;
      readonly id: string;
      readonly asked: string;
      readonly status: number;
      readonly told: string[];
    }
  /** An answer that is no success, or none (status 0). */
  | {
      readonly type: 'refused';
      readonly at: number;
      readonly path: string;
      readonly status: number;
      readonly detail: string;
    };

/** Microseconds of the monotonic clock, which all processes of a machine share. */
export function now(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

/** A file of NDJSON; what is written is with the system when `write` returns, so that a kill -9 of the process loses none of it. */
export class Journal {
  private readonly file: number;

  constructor(path: string) {
    this.file = openSync(path, 'a');
  }

  write(entry: Entry): void {
    writeSync(this.file, `${JSON.stringify(entry)}\n`);
  }
}
