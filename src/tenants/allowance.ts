import type { RateState } from '../core/admission.js';
import { ServiceError } from '../errors.js';
import { TokenBucket } from './token-bucket.js';

export type Rated = 'requests' | 'jobs';
export type Counted = 'parked' | 'streams';

/** The limits of a tenant or a key that are kept to by counting. */
export interface CountedLimits {
  readonly requestsPerSecond?: number | undefined;
  readonly jobsPerSecond?: number | undefined;
  readonly parkedLeases?: number | undefined;
  readonly streams?: number | undefined;
  readonly storedJobs?: number | undefined;
}

/** What one instance has lately seen of the use of a tenant's or a key's limits. */
export interface Usage {
  /** Asked for, a second, and what was let through beyond the rate and is to be made up for. */
  readonly requests: number;
  readonly jobs: number;
  readonly parked: number;
  readonly streams: number;
}

/** What the other instances that use them have seen, in all. */
export interface Elsewhere extends Usage {
  /** How many these instances are. */
  readonly instances: number;
}

/** All instances together have at least this part of a rate, however little they ask for beside the others. */
const LEAST_SHARE = 0.05;
/** How much of an old measure of what is asked for stays in a new one, when less is asked for. */
const MEMORY = 0.2;
/** Less is nothing: the database takes no number as small as memory fades to. */
const LEAST_DEMAND = 0.001;

const NOTHING_ELSEWHERE: Elsewhere = { requests: 0, jobs: 0, parked: 0, streams: 0, instances: 0 };

/** What of a tenant's, or a key's, limits is left on this instance. */
export class Allowance {
  readonly #buckets: Partial<Record<Rated, TokenBucket>> = {};
  readonly #asked = { requests: 0, jobs: 0 };
  readonly #recent = { requests: 0, jobs: 0 };
  readonly #demand = { requests: 0, jobs: 0 };
  readonly #held = { parked: 0, streams: 0 };
  #elsewhere = NOTHING_ELSEWHERE;
  #stored: number | undefined;
  /** Stored here since they were counted, and about to be. */
  #storedSince = 0;
  #underWay = 0;
  #measuredAt: number;
  #usedAt: number;

  /**
   * @param whose how errors call it: `tenant` or `key`
   * @param now milliseconds of this process, here and below
   */
  constructor(
    private readonly whose: 'tenant' | 'key',
    private limits: CountedLimits,
    now: number,
  ) {
    this.#measuredAt = now;
    this.#usedAt = now;
    this.#shareAnew(now);
  }

  /** The limits have changed, perhaps. */
  setLimits(limits: CountedLimits, now: number): void {
    if (limits === this.limits) return;
    this.limits = limits;
    this.#shareAnew(now);
  }

  /** Takes out of a rate. Throws RATE_LIMITED. */
  take(rated: Rated, count: number, now: number): void {
    this.#usedAt = now;
    this.#asked[rated] += count;
    const wait = this.#buckets[rated]?.take(count, now) ?? 0;
    if (wait === 0) return;
    const most = many(this.#limitOf(rated)!, rated === 'requests' ? 'request' : 'job');
    throw new ServiceError('RATE_LIMITED', `the ${this.whose} may have ${most} a second`, { retryAfter: wait });
  }

  /** Gives back what was taken for a call that is refused for another reason: as if it had not been asked for. */
  putBack(rated: Rated, count: number): void {
    this.#asked[rated] = Math.max(0, this.#asked[rated] - count);
    this.#buckets[rated]?.putBack(count);
  }

  /** Counts jobs that are about to be stored. Throws QUOTA_EXCEEDED. */
  store(count: number, now: number): void {
    this.#usedAt = now;
    const { storedJobs } = this.limits;
    if (storedJobs === undefined) return;
    if ((this.#stored ?? 0) + this.#storedSince + this.#underWay + count > storedJobs) {
      const most = many(storedJobs, 'stored job');
      throw new ServiceError('QUOTA_EXCEEDED', `the ${this.whose} may have ${most}`, { retryAfter: 5 });
    }
    this.#underWay += count;
  }

  /** These jobs are stored, or may be: this is committed. */
  stored(count: number): void {
    if (this.#underWay === 0) return;
    this.#underWay = Math.max(0, this.#underWay - count);
    this.#storedSince += count;
  }

  /** These jobs are not stored after all. */
  unstore(count: number): void {
    this.#underWay = Math.max(0, this.#underWay - count);
  }

  /** Begins to hold one more. Throws QUOTA_EXCEEDED. */
  hold(counted: Counted, now: number): void {
    this.#usedAt = now;
    const limit = counted === 'parked' ? this.limits.parkedLeases : this.limits.streams;
    if (limit !== undefined && this.#held[counted] + this.#elsewhere[counted] >= limit) {
      const most = many(limit, counted === 'parked' ? 'parked lease' : 'stream');
      throw new ServiceError('QUOTA_EXCEEDED', `the ${this.whose} may have ${most} at once`, { retryAfter: 1 });
    }
    this.#held[counted] += 1;
  }

  release(counted: Counted): void {
    this.#held[counted] -= 1;
  }

  held(counted: Counted): number {
    return this.#held[counted];
  }

  /** Where calls stand; undefined without a limit on them. */
  rate(now: number): RateState | undefined {
    const bucket = this.#buckets.requests;
    const limit = this.limits.requestsPerSecond;
    if (bucket === undefined || limit === undefined) return undefined;
    const remaining = Math.min(limit, Math.max(0, Math.floor(bucket.left(now))));
    return { limit, remaining, reset: Math.ceil(bucket.untilFull(now)) };
  }

  /** Whether nothing is held and nothing was asked for since that time. */
  idleSince(time: number): boolean {
    return this.#usedAt < time && this.#held.parked === 0 && this.#held.streams === 0;
  }

  /** Whether it is of use to others to know what is used here. */
  get isShared(): boolean {
    const { requestsPerSecond, jobsPerSecond, parkedLeases, streams } = this.limits;
    return [requestsPerSecond, jobsPerSecond, parkedLeases, streams].some((limit) => limit !== undefined);
  }

  get boundsStored(): boolean {
    return this.limits.storedJobs !== undefined;
  }

  /** What is used here, measured since it was asked last. */
  measure(now: number): Usage {
    const seconds = Math.max(0.05, (now - this.#measuredAt) / 1_000);
    this.#measuredAt = now;
    for (const rated of ['requests', 'jobs'] as const) {
      const asked = this.#asked[rated] / seconds;
      const debt = Math.max(0, -(this.#buckets[rated]?.left(now) ?? 0));
      const recent = Math.max(asked, this.#recent[rated] * MEMORY + asked * (1 - MEMORY));
      this.#recent[rated] = recent < LEAST_DEMAND ? 0 : recent;
      this.#demand[rated] = this.#recent[rated] + debt;
      this.#asked[rated] = 0;
    }
    return { ...this.#demand, ...this.#held };
  }

  /** What the other instances use. */
  setElsewhere(usage: Elsewhere | undefined, now: number): void {
    this.#elsewhere = usage ?? NOTHING_ELSEWHERE;
    this.#shareAnew(now);
  }

  /** How many jobs were stored here since they were counted, for certain: to be asked before they are counted anew. */
  get storedSince(): number {
    return this.#storedSince;
  }

  /** How many jobs are stored; those that were stored when the count began are among them. */
  setStored(jobs: number, among: number): void {
    this.#stored = jobs;
    this.#storedSince = Math.max(0, this.#storedSince - among);
  }

  #limitOf(rated: Rated): number | undefined {
    return rated === 'requests' ? this.limits.requestsPerSecond : this.limits.jobsPerSecond;
  }

  #shareAnew(now: number): void {
    for (const rated of ['requests', 'jobs'] as const) {
      const limit = this.#limitOf(rated);
      if (limit === undefined) {
        this.#buckets[rated] = undefined;
        continue;
      }
      const { instances } = this.#elsewhere;
      const rate = shareOf(limit, { here: this.#demand[rated], elsewhere: this.#elsewhere[rated], instances });
      const bucket = this.#buckets[rated];
      if (bucket === undefined) this.#buckets[rated] = new TokenBucket(rate, now);
      else bucket.setRate(rate, now);
    }
  }
}

/**
 * A part by what each asks for of a limit that does not suffice; of one that does, what is asked for and an equal part of what is left.
 * So the shares of instances that know of each other come to the limit, and a little more.
 */
function shareOf(
  limit: number,
  { here, elsewhere, instances }: { readonly here: number; readonly elsewhere: number; readonly instances: number },
): number {
  const [asked, all] = [here + elsewhere, instances + 1];
  const share = asked > limit ? (limit * here) / asked : here + (limit - asked) / all;
  return Math.max(share, (limit * LEAST_SHARE) / all);
}

function many(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`;
}
