import type { Caller, Operation } from '../core/operation.js';
import type { Connections } from '../db/pool.js';
import { isAdministrative } from './is-administrative.js';
import { byOf, writeEvent } from './record-act.js';

const MOST_A_MINUTE = 10;
const MINUTE_MS = 60_000;
const MOST_CREDENTIALS = 10_000;

export interface RefusalParts {
  readonly connections: Pick<Connections, 'query'>;
  /** Counts refusals: whether each is to have a row of its own. */
  readonly onRefused: (recorded: boolean) => void;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
  /** Milliseconds of this process. */
  readonly now?: () => number;
}

export type Refusals = (
  operation: Pick<Operation, 'name' | 'scopes' | 'http'>,
  caller: Caller,
  call: { readonly requestId: string; readonly address: string },
) => void;

/**
 * To be told of calls that were answered PERMISSION_DENIED. Those to administrative operations are written into the audit log, on
 * the side: the answer never waits for that. At most ten a minute of one credential are, and of a bounded number of credentials;
 * beyond that they are only counted.
 */
export function createRefusals({ connections, onRefused, log, now = () => performance.now() }: RefusalParts): Refusals {
  const recent = new RecentlyRefused();

  return function refused(operation, caller, call) {
    if (!isAdministrative(operation)) return;
    const recorded = recent.take(`${caller.kind} ${caller.id}`, now());
    onRefused(recorded);
    if (!recorded) return;
    const by = byOf({ caller, requestId: call.requestId, address: call.address });
    const { actor, requestId, address } = by;
    const act = { action: operation.name, target: '', refused: true };
    log.info({ ...act, requestId, address, tenant: caller.tenant?.name, actor }, 'audit');
    writeEvent(connections, by, act).catch((error: unknown) => {
      log.warn({ err: error, requestId }, 'a refusal is missing in the audit log');
    });
  };
}

/** The instants of the last refusals of each credential, the one that was silent for longest in front. */
class RecentlyRefused {
  private readonly times = new Map<string, number[]>();

  /** Whether a further one is within bounds; it then counts. */
  take(credential: string, at: number): boolean {
    const known = this.times.get(credential);
    if (known === undefined && !this.hasRoom(at)) return false;
    const within = (known ?? []).filter((time) => time > at - MINUTE_MS);
    const free = within.length < MOST_A_MINUTE;
    if (free) {
      within.push(at);
      // Behind the others, so that in front is the one whose last row is the oldest.
      this.times.delete(credential);
    }
    this.times.set(credential, within);
    return free;
  }

  private hasRoom(at: number): boolean {
    if (this.times.size < MOST_CREDENTIALS) return true;
    const [oldest] = this.times;
    if (oldest === undefined || oldest[1].some((time) => time > at - MINUTE_MS)) return false;
    this.times.delete(oldest[0]);
    return true;
  }
}
