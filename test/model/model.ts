/**
 * The rules of the contract for one queue, as plain as they can be written: what each call is answered and what becomes of the
 * job. Whether the service has noticed that a lease ran out is not in its hands, so such a job is `lapsed` until somebody
 * looks, and only what must hold either way is asked of it.
 */
export type State = 'scheduled' | 'ready' | 'leased' | 'completed' | 'dead' | 'cancelled';
export type Ended = 'acked' | 'nacked' | 'released' | 'expired' | 'cancelled';
export type Verb = 'ack' | 'nack' | 'release' | 'heartbeat';

export interface ModelLease {
  readonly token: string;
  readonly epoch: number;
  readonly attempt: number;
  ended: Ended | undefined;
}

export interface ModelJob {
  readonly id: string;
  readonly key: string | undefined;
  readonly payload: number;
  readonly maxAttempts: number;
  readonly leases: ModelLease[];
  state: State;
  /** Leased under a lease that has run out, which the service may have noticed or not. */
  lapsed: boolean;
  priority: number;
  attempt: number;
  releases: number;
  cancelRequested: boolean;
  deadReason: string | undefined;
  /** When it became ready, in steps of the model: at the earliest and at the latest. */
  readyFrom: number;
  readyUntil: number;
}

export interface Model {
  readonly jobs: ModelJob[];
  paused: boolean;
  step: number;
}

export interface Expected {
  readonly outcome: 'OK' | 'ALREADY_SETTLED' | 'LEASE_LOST';
  /** One of these, with LEASE_LOST. */
  readonly settledAs?: readonly (Ended | undefined)[];
}

const ENDED_BY: Readonly<Record<Verb, Ended | undefined>> = {
  ack: 'acked',
  nack: 'nacked',
  release: 'released',
  heartbeat: undefined,
};

export function isLast(job: ModelJob, lease: ModelLease): boolean {
  return job.leases.at(-1) === lease;
}

/** What a verb with that lease's token is answered. */
export function expectedOutcome(job: ModelJob, lease: ModelLease, verb: Verb): Expected {
  const last = isLast(job, lease);
  if (last && job.lapsed)
    return verb === 'ack' ? { outcome: 'OK' } : { outcome: 'LEASE_LOST', settledAs: [undefined, 'expired'] };
  if (last && job.state === 'leased') return { outcome: 'OK' };
  if (verb === 'ack' && last && lease.ended === 'expired' && ['ready', 'scheduled', 'dead'].includes(job.state))
    return { outcome: 'OK' };
  const releasedSince = verb === 'release' && !last;
  if (lease.ended === ENDED_BY[verb] && !releasedSince) return { outcome: 'ALREADY_SETTLED' };
  return { outcome: 'LEASE_LOST', settledAs: [lease.ended] };
}

export function becomeReady(model: Model, job: ModelJob): void {
  job.state = 'ready';
  job.readyFrom = job.readyUntil = model.step++;
}

export function complete(job: ModelJob, lease: ModelLease): void {
  job.state = 'completed';
  job.lapsed = false;
  job.attempt = lease.attempt;
  job.deadReason = undefined;
  lease.ended = 'acked';
}

export interface HandBack {
  readonly ended: 'nacked' | 'released';
  /** Not at once. */
  readonly delayed: boolean;
  readonly final: boolean;
}

export function handBack(model: Model, job: ModelJob, { ended, delayed, final }: HandBack): void {
  job.leases.at(-1)!.ended = ended;
  if (ended === 'released') {
    job.attempt -= 1;
    job.releases += 1;
  }
  if (job.cancelRequested) job.state = 'cancelled';
  else if (ended === 'nacked' && (final || job.attempt >= job.maxAttempts))
    die(job, final ? 'final' : 'attempts_spent');
  else if (delayed) job.state = 'scheduled';
  else becomeReady(model, job);
}

/** The lease runs out; from now on the service may notice. */
export function lapse(model: Model, job: ModelJob): void {
  job.lapsed = true;
  job.readyFrom = model.step++;
}

/** The service has noticed that these leases have run out, each at some moment since then. */
export function expire(model: Model, jobs: readonly ModelJob[]): void {
  for (const job of jobs) {
    job.leases.at(-1)!.ended = 'expired';
    job.lapsed = false;
    job.readyUntil = model.step++;
    if (job.cancelRequested) job.state = 'cancelled';
    else if (job.attempt >= job.maxAttempts) die(job, 'attempts_spent');
    else job.state = 'ready';
  }
}

function die(job: ModelJob, reason: string): void {
  job.state = 'dead';
  job.deadReason = reason;
}

/** Cancels a job that is not lapsed, and answers with the status of the call. */
export function cancel(job: ModelJob, force: boolean): number {
  if (job.state === 'completed' || job.state === 'dead') return 409;
  if (job.state === 'leased' && !force) {
    job.cancelRequested = true;
  } else if (job.state === 'leased') {
    job.leases.at(-1)!.ended = 'cancelled';
    job.state = 'cancelled';
  } else {
    job.state = 'cancelled';
  }
  return 200;
}

export function leasable(model: Model): ModelJob[] {
  return model.paused ? [] : model.jobs.filter(({ state }) => state === 'ready');
}

/** Whether none of the others must be leased before it. */
export function mayBeNext(model: Model, job: ModelJob): boolean {
  return leasable(model).every(
    ({ priority, readyUntil }) => priority < job.priority || (priority === job.priority && readyUntil >= job.readyFrom),
  );
}

export function lease(job: ModelJob, given: { readonly token: string; readonly epoch: number }): void {
  job.state = 'leased';
  job.cancelRequested = false;
  job.attempt += 1;
  job.leases.push({ ...given, attempt: job.attempt, ended: undefined });
}

/** What GET shows of it. */
export function shown(job: ModelJob): object {
  const ended = job.leases.filter((one) => one.ended !== undefined);
  return {
    id: job.id,
    state: job.state,
    priority: job.priority,
    attempt: job.attempt,
    maxAttempts: job.maxAttempts,
    releases: job.releases,
    cancelRequested: job.state === 'leased' && job.cancelRequested,
    deadReason: job.state === 'dead' ? job.deadReason : undefined,
    attempts: ended.map(({ attempt, epoch, ended: outcome }) => ({ attempt, epoch, outcome })),
  };
}
