import type { Admission, LastingKind, RateState } from '../core/admission.js';
import type { Caller } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import { Allowance, type Counted, type CountedLimits } from './allowance.js';
import type { CallerWatch } from './caller-watch.js';

const FORGET_AFTER_MS = 60_000;

export interface AllowancesParts {
  readonly watch: CallerWatch;
  /** How many calls of one tenant may wait on this instance, whatever its limits, so that none fills the waiting room. */
  readonly mostParked: number;
}

/** What tenants and keys may still do on this instance. The limits themselves come with every caller. */
export class Allowances implements Admission {
  readonly #all = new Map<string, Allowance>();

  constructor(private readonly parts: AllowancesParts) {}

  request(caller: Caller, told: { rate?: RateState | undefined }): void {
    const { limits, tenant } = caller;
    const ofTenant = tenant?.limits.requestsPerSecond;
    if (ofTenant === undefined && limits.requestsPerSecond === undefined) return;
    const now = performance.now();
    const touched: Allowance[] = [];
    try {
      this.#each(caller, now, (allowance) => {
        touched.push(allowance);
        allowance.take('requests', 1, now);
        return () => allowance.putBack('requests', 1);
      });
    } finally {
      told.rate = touched.map((allowance) => allowance.rate(now)).reduce(tighter, undefined);
    }
  }

  mayStore(caller: Caller): void {
    this.jobs(caller, 1)(false);
  }

  jobs(caller: Caller, count: number): (stored: boolean) => void {
    const { limits, tenant } = caller;
    const ofTenant = tenant?.limits.jobsPerSecond ?? tenant?.limits.storedJobs;
    if (ofTenant === undefined && limits.jobsPerSecond === undefined) return NOTHING;
    const now = performance.now();
    return this.#each(caller, now, (allowance) => {
      allowance.store(count, now);
      const undo = (): void => allowance.unstore(count);
      orUndo(undo, () => allowance.take('jobs', count, now));
      return (stored) => {
        if (stored) return allowance.stored(count);
        undo();
        allowance.putBack('jobs', count);
      };
    });
  }

  begin(caller: Caller, kind: LastingKind, end: (error: ServiceError) => void): () => void {
    const now = performance.now();
    const counted: Counted = kind === 'parkedLeases' ? 'parked' : 'streams';
    if (counted === 'parked') this.#refuseTooManyParked(caller);
    const release = this.#each(caller, now, (allowance) => {
      allowance.hold(counted, now);
      return () => allowance.release(counted);
    });
    const unwatch = this.parts.watch.watch(caller, end);
    return () => {
      unwatch();
      release(false);
    };
  }

  /** Those of tenants and keys that are in use, by id; what has not been used for a minute is forgotten. */
  inUse(): ReadonlyMap<string, Allowance> {
    const longAgo = performance.now() - FORGET_AFTER_MS;
    for (const [id, allowance] of this.#all) if (allowance.idleSince(longAgo)) this.#all.delete(id);
    return this.#all;
  }

  /**
   * Takes something out of the allowance of the key and out of that of the tenant, or out of neither; answers what settles both. The key's
   * comes first: what it refuses is nothing that its tenant has asked for.
   */
  #each({ id, kind, limits, tenant }: Caller, now: number, act: (allowance: Allowance) => Settle): Settle {
    const hasOwn = kind === 'key' && Object.keys(limits).length > 0;
    const settle = hasOwn ? act(this.#of(id, { whose: 'key', limits }, now)) : NOTHING;
    if (tenant === undefined) return settle;
    const ofTenant = this.#of(tenant.id, { whose: 'tenant', limits: tenant.limits }, now);
    const settleTenant = orUndo(
      () => settle(false),
      () => act(ofTenant),
    );
    return (kept) => {
      settleTenant(kept);
      settle(kept);
    };
  }

  #of(id: string, { whose, limits }: { whose: 'tenant' | 'key'; limits: CountedLimits }, now: number): Allowance {
    let allowance = this.#all.get(id);
    if (allowance === undefined) this.#all.set(id, (allowance = new Allowance(whose, limits, now)));
    else allowance.setLimits(limits, now);
    return allowance;
  }

  #refuseTooManyParked({ tenant }: Caller): void {
    const { mostParked } = this.parts;
    if (tenant === undefined || (this.#all.get(tenant.id)?.held('parked') ?? 0) < mostParked) return;
    throw new ServiceError('QUOTA_EXCEEDED', `a tenant may have ${mostParked} parked leases on one instance`, {
      retryAfter: 1,
    });
  }
}

function tighter(a: RateState | undefined, b: RateState | undefined): RateState | undefined {
  return a === undefined || (b !== undefined && b.remaining < a.remaining) ? b : a;
}

function orUndo<Result>(undo: () => void, run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    undo();
    throw error;
  }
}

/** To be told once how what was taken has ended: whether it is kept, or given back. */
type Settle = (kept: boolean) => void;

const NOTHING = (): void => undefined;
