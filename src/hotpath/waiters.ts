import { isConnectionLost, isTransient, type Connections } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Claim, ClaimKind } from './claim-kind.js';
import type { Eventual } from '../core/eventual.js';
import { Expectations } from './expectations.js';
import type { Lanes, Stretch } from './lanes.js';
import { LostClaims } from './lost-claims.js';
import type { KnownQueue, QueueDirectory } from './queue-directory.js';
import { planRound } from './plan-round.js';
import type { Round } from './round.js';
import { createWaiter, type LeaseRequest, place, stopIdling, type Waiter } from './waiter.js';

export interface WaitersParts {
  readonly connections: Connections;
  /** For giving back what a lost claim may have leased: beside the claims, not behind them. */
  readonly repairs: Connections;
  readonly queues: QueueDirectory;
  readonly lanes: Lanes;
  readonly maxParked: number;
  /** Whether every lease looks at the database before it parks: nobody would tell it of work that came by other instances. */
  readonly alwaysLooks?: boolean;
  /** How many claims run at once, and how many leases one serves. One for all who wait, unless a benchmark wants it otherwise. */
  readonly claims?: { readonly atOnce: number; readonly leases: number } | undefined;
  readonly metrics: Metrics;
  readonly log: Log;
}

const TRIES = 5;

/**
 * Leases that wait. Invariants:
 * - A parked lease holds no connection. One claim statement at a time serves all that can be served, for all tenants; what
 *   arrives meanwhile joins the next.
 * - A lease that has not looked at the database yet looks once, unless it may park and its queues are known to be empty as of
 *   the last poll; so a call with `wait: 0` never answers "empty" from memory.
 * - A queue is believed empty only by a claim that asked for more than it got, looked everywhere (`Lanes`) and began after the last
 *   word that the queue has work (`WorkFlags` compares versions): a wake-up between "empty" and "sleep" is never lost.
 * - Jobs are leased under ids made before the statement. A claim whose answer is lost is never repeated under its ids: its
 *   callers claim anew, and what the lost one may have leased is given back until its backend is gone (`LostClaims`).
 * - Whoever is gone when its jobs arrive, or before it has been given them, gets nothing: they go straight back.
 */
export class Waiters {
  private readonly expectations: Expectations;
  private readonly parked = new Set<Waiter>();
  private kind: ClaimKind<unknown> | undefined;
  private claiming = 0;
  private planned = false;
  private closed = false;
  private failures = 0;
  private readonly lost: LostClaims;

  constructor(private readonly parts: WaitersParts) {
    const { queues, lanes } = parts;
    this.expectations = new Expectations({ queues, lanes, onPace: (queueId) => this.ready([queueId]) });
    this.lost = new LostClaims(parts.repairs, parts.log);
  }

  /** Leases, waiting as the request says. Resolves with no jobs when nothing came, the caller is gone, or the service stops. */
  async lease<Job>(kind: ClaimKind<Job>, request: LeaseRequest): Promise<Job[]> {
    this.kind = kind;
    if (this.parked.size >= this.parts.maxParked) {
      throw new ServiceError('UNAVAILABLE', 'too many leases wait', { retryAfter: 1 });
    }
    const queues = this.findQueues(request);
    const found = queues instanceof Promise ? await queues : queues;
    if (request.departure.happened) return [];
    return new Promise((resolve, reject) => {
      const onGone = (): void => this.expire(waiter);
      request.departure.listen(onGone);
      const waiter = createWaiter(request, (result) => {
        stopIdling(waiter);
        request.idled(waiter.idle / 1_000);
        clearTimeout(waiter.timer);
        waiter.unpark?.();
        request.departure.unlisten(onGone);
        this.parked.delete(waiter);
        if (result instanceof ServiceError) reject(result);
        else resolve(result as Job[]);
      });
      request.queues.forEach(({ name, weight }, index) => place(waiter, { name, weight, queue: found[index] }));
      waiter.mustLook =
        request.wait === 0 ||
        this.parts.alwaysLooks === true ||
        [...waiter.queues.keys()].some((id) => !this.expectations.flags.knownEmpty(id));
      if (this.closed || (request.wait === 0 && waiter.queues.size === 0)) {
        waiter.answer([]);
        return;
      }
      this.parked.add(waiter);
      if (!this.owesLook(waiter)) this.rest(waiter);
      this.plan();
    });
  }

  /** Jobs may be ready in these queues. */
  ready(queueIds: readonly number[] | 'all'): void {
    this.expectations.flags.mark(queueIds);
    this.plan();
  }

  /** The queues that parked leases wait for, and the names among them that do not exist. */
  waitedFor(): { readonly queueIds: number[]; readonly unknown: { tenantId: string; name: string }[] } {
    const queueIds = new Set<number>();
    const unknown = new Map<string, { tenantId: string; name: string }>();
    for (const { request, queues, unknown: names } of this.parked) {
      for (const id of queues.keys()) queueIds.add(id);
      for (const name of names.keys()) unknown.set(`${request.tenantId} ${name}`, { tenantId: request.tenantId, name });
    }
    return { queueIds: [...queueIds], unknown: [...unknown.values()] };
  }

  /** The poll's answer: of the queues it looked at, those with work; the others are empty if nothing was heard since `begun`. */
  polled(looked: readonly number[], withWork: readonly number[], begun: number): void {
    const work = new Set(withWork);
    this.expectations.flags.polled(
      looked.filter((id) => !work.has(id)),
      begun,
    );
    if (withWork.length > 0) this.ready(withWork);
  }

  /** Where there may be rows in these queues. */
  whereToLook(queueIds: readonly number[]): (readonly Stretch[])[] {
    return queueIds.map((queueId) => this.parts.lanes.fromFloors(queueId));
  }

  /** A mark in time, taken before a poll begins. */
  version(): number {
    return this.expectations.flags.version;
  }

  /** Queues that have come into being: whoever waits for their names waits for them from now on. */
  appeared(queues: readonly KnownQueue[]): void {
    const byName = new Map(queues.map((queue) => [`${queue.tenantId} ${queue.name}`, queue]));
    for (const waiter of this.parked) {
      for (const [name, weight] of waiter.unknown) {
        const queue = byName.get(`${waiter.request.tenantId} ${name}`);
        if (queue === undefined) continue;
        waiter.unknown.delete(name);
        waiter.queues.set(queue.id, { name, weight });
        waiter.mustLook = true;
      }
    }
    this.plan();
  }

  /** Queues that may be gone: whoever waits for one waits for its name again, until that is looked up. */
  queuesChanged(ids: readonly number[] | 'all'): void {
    for (const waiter of this.parked) {
      for (const id of ids === 'all' ? [...waiter.queues.keys()] : ids) {
        const queue = waiter.queues.get(id);
        if (queue === undefined) continue;
        waiter.queues.delete(id);
        waiter.unknown.set(queue.name, queue.weight);
      }
      if (!waiter.busy && !this.owesLook(waiter)) this.arm(waiter);
    }
  }

  /** Counts jobs that came for a caller who was gone. */
  undelivered(jobs: number): void {
    this.parts.metrics.returnedUndelivered(jobs);
  }

  /** How many leases are parked. */
  get size(): number {
    return this.parked.size;
  }

  /** Counts and reports jobs that were found without a body and are dead now. */
  buried(jobIds: readonly string[]): void {
    this.parts.metrics.jobs('dead', jobIds.length);
    this.parts.log.error({ jobIds }, 'leased jobs have no body and are dead');
  }

  /** Answers everybody who is parked with nothing; a claim under way is delivered. */
  async close(): Promise<void> {
    this.closed = true;
    this.expectations.close();
    for (const waiter of [...this.parked]) if (!waiter.busy) waiter.answer([]);
    while (this.claiming > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    this.lost.close();
  }

  private findQueues({ tenantId, queues }: LeaseRequest): Eventual<(KnownQueue | undefined)[]> {
    const known = queues.map(({ name }) => this.parts.queues.known(tenantId, name));
    return known.includes(undefined)
      ? Promise.all(queues.map(({ name }) => this.parts.queues.find(tenantId, name)))
      : known;
  }

  /** From now on the lease has nothing to do but wait. */
  private rest(waiter: Waiter): void {
    waiter.idleSince = performance.now();
    try {
      waiter.unpark ??= waiter.request.park((error) => this.end(waiter, error));
    } catch (error) {
      waiter.answer(error as ServiceError);
      return;
    }
    this.arm(waiter);
  }

  /** The caller may wait no longer. A claim that is under way for it is delivered. */
  private end(waiter: Waiter, error: ServiceError): void {
    if (!waiter.busy) return waiter.answer(error);
    waiter.until = 0;
    waiter.ended = error;
  }

  /** Has the lease end in time. To be called where no round is to come for it; most leases are served by their first and need no timer. */
  private arm(waiter: Waiter): void {
    waiter.timer ??= setTimeout(() => this.expire(waiter), Math.max(0, waiter.until - performance.now()));
  }

  private expire(waiter: Waiter): void {
    waiter.until = 0;
    if (!waiter.busy && !this.owesLook(waiter)) waiter.answer([]);
  }

  /** Even a call that does not park looks once, in the next round. */
  private owesLook({ mustLook, queues, request }: Waiter): boolean {
    return mustLook && queues.size > 0 && !request.departure.happened && !this.closed;
  }

  private plan(): void {
    const { atOnce, leases } = this.parts.claims ?? ONE_FOR_ALL;
    if (this.planned || this.claiming >= atOnce || this.parked.size === 0) return;
    this.planned = true;
    setImmediate(() => {
      this.planned = false;
      if (this.claiming >= atOnce) return;
      const round = planRound(this.parked, this.expectations, leases);
      if (round.waiters.length === 0) return;
      void this.claim(round);
      this.plan();
    });
  }

  private async claim(round: Round): Promise<void> {
    this.claiming += 1;
    for (const waiter of round.waiters) {
      waiter.busy = true;
      stopIdling(waiter);
    }
    let processId: number | undefined;
    try {
      const claimed = await this.kind!.claim(this.parts.connections, round, (id) => (processId = id));
      this.failures = 0;
      this.deliver(round, claimed);
    } catch (error) {
      if (isConnectionLost(error)) {
        this.parts.lanes.forget();
        if (processId !== undefined) this.lost.add(this.kind!, { leaseIds: round.leaseIds, processId });
      }
      await this.failed(round, error);
    }
    this.claiming -= 1;
    this.plan();
  }

  private deliver(round: Round, claim: Claim<unknown>): void {
    const jobs = round.waiters.map((): unknown[] => []);
    for (const item of claim.jobs) jobs[item.waiter]!.push(item.job);
    this.expectations.learn(round, claim);
    this.parts.metrics.claimed(claim.jobs.length, claim.waits);
    const unsure = new Set(round.queues.flatMap(({ start, waiters }) => (start.shortened ? waiters : [])));
    const now = performance.now();
    round.waiters.forEach((waiter, index) => {
      waiter.busy = false;
      waiter.mustLook = round.partial.has(index) || unsure.has(index);
      const over = waiter.until <= now || waiter.request.departure.happened || this.closed;
      if (jobs[index]!.length > 0) waiter.answer(jobs[index]!);
      else if (over && !this.owesLook(waiter)) waiter.answer(waiter.ended ?? []);
      else this.rest(waiter);
    });
  }

  private async failed(round: Round, error: unknown): Promise<void> {
    this.failures += 1;
    const passes = isConnectionLost(error) || isTransient(error);
    if (!passes) this.parts.log.error({ err: error }, 'a claim failed');
    const give =
      error instanceof ServiceError ? error : new ServiceError('INTERNAL', 'internal error', { cause: error });
    for (const waiter of round.waiters) {
      waiter.busy = false;
      if (!passes || this.failures >= TRIES || this.closed) waiter.answer(give);
      else if (waiter.request.departure.happened) waiter.answer([]);
      else this.arm(waiter);
    }
    if (passes) await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, 20 * 4 ** this.failures)));
    if (this.failures >= TRIES) this.failures = 0;
  }
}

const ONE_FOR_ALL = { atOnce: 1, leases: Infinity };
