import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Answer } from '../helpers/service.js';
import * as rules from './model.js';
import type { Model, ModelJob, ModelLease, Verb } from './model.js';
import type { Real } from './real.js';

type Command = fc.AsyncCommand<Model, Real>;

const LONG = '1h';

/** Every call of the contract on one queue, and what time brings about. */
export function commands(): fc.Arbitrary<Command>[] {
  const pick = fc.nat(1_000);
  const priority = fc.integer({ min: -1, max: 1 });
  const settles = fc.tuple(
    pick,
    fc.record({ inBatch: fc.boolean(), delay: fc.boolean(), final: fc.nat(3).map((n) => n === 0) }),
  );
  const enqueued = fc.record({
    priority,
    maxAttempts: fc.integer({ min: 1, max: 3 }),
    delayed: fc.nat(3).map((n) => n === 0),
    key: fc.option(fc.constantFrom('a', 'b', 'c'), { nil: undefined }),
    payload: fc.nat(1),
  });
  const leases = fc.nat(5).map((n): Command => new Lease(1 + n));
  return [
    enqueued.map((job) => new Enqueue(job)),
    fc
      .array(enqueued, { minLength: 1, maxLength: 5 })
      .map((jobs) => new EnqueueBatch(jobs.map((job) => ({ ...job, key: undefined })))),
    leases,
    leases,
    settles.map(([nth, options]) => new Settle(nth, 'ack', options)),
    settles.map(([nth, options]) => new Settle(nth, 'nack', options)),
    settles.map(([nth, options]) => new Settle(nth, 'release', options)),
    settles.map(([nth, options]) => new Settle(nth, 'heartbeat', options)),
    fc.tuple(pick, fc.boolean()).map(([nth, notice]) => new Expire(nth, notice)),
    pick.map((nth) => new Promote(nth)),
    fc.tuple(pick, fc.boolean()).map(([nth, force]) => new Cancel(nth, force)),
    fc.tuple(pick, priority).map(([nth, to]) => new Patch(nth, to)),
    fc.constant(new Redrive()),
    fc.boolean().map((paused) => new Pause(paused)),
    pick.map((nth) => new Look(nth)),
  ];
}

interface Enqueued {
  readonly priority: number;
  readonly maxAttempts: number;
  readonly delayed: boolean;
  readonly key: string | undefined;
  readonly payload: number;
}

class Enqueue implements Command {
  constructor(private readonly job: Enqueued) {}
  check = (): boolean => true;
  toString = (): string => `enqueue(${JSON.stringify(this.job)})`;

  async run(model: Model, { client, queue }: Real): Promise<void> {
    const earlier = this.job.key === undefined ? undefined : model.jobs.find(({ key }) => key === this.job.key);
    const answer = await client.post(`/v1/queues/${queue}/jobs`, bodyOf(this.job));
    if (earlier === undefined) {
      assert.equal(answer.status, 201, answer.text);
      created(model, this.job, answer.body);
    } else if (earlier.payload !== this.job.payload) {
      assert.equal(`${answer.status} ${answer.body.code}`, '409 IDEMPOTENCY_KEY_REUSED');
    } else {
      assert.equal(answer.status, 200, answer.text);
      assert.equal(answer.body.id, earlier.id);
      assert.equal(answer.body.deduplicated, true);
      if (!earlier.lapsed) assert.equal(answer.body.state, earlier.state);
    }
  }
}

class EnqueueBatch implements Command {
  constructor(private readonly jobs: readonly Enqueued[]) {}
  check = (): boolean => true;
  toString = (): string => `enqueueBatch(${JSON.stringify(this.jobs)})`;

  async run(model: Model, { client, queue }: Real): Promise<void> {
    const answer = await client.post('/v1/jobs/batch', { jobs: this.jobs.map((job) => ({ queue, ...bodyOf(job) })) });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.body.jobs.length, this.jobs.length);
    this.jobs.forEach((job, index) => created(model, job, answer.body.jobs[index]));
  }
}

function bodyOf({ priority, maxAttempts, delayed, key, payload }: Enqueued): object {
  return { kind: 'k', payload, priority, maxAttempts, idempotencyKey: key, delay: delayed ? LONG : undefined };
}

function created(model: Model, { priority, maxAttempts, delayed, key, payload }: Enqueued, answer: any): void {
  assert.equal(answer.deduplicated, false);
  assert.equal(answer.state, delayed ? 'scheduled' : 'ready');
  const job: ModelJob = {
    id: answer.id,
    key,
    payload,
    maxAttempts,
    priority,
    leases: [],
    state: 'scheduled',
    lapsed: false,
    attempt: 0,
    releases: 0,
    cancelRequested: false,
    deadReason: undefined,
    readyFrom: 0,
    readyUntil: 0,
  };
  model.jobs.push(job);
  if (!delayed) rules.becomeReady(model, job);
}

class Lease implements Command {
  constructor(private readonly maxJobs: number) {}
  check = (): boolean => true;
  toString = (): string => `lease(${this.maxJobs})`;

  async run(model: Model, real: Real): Promise<void> {
    await noticeAll(model, real);
    const expected = Math.min(this.maxJobs, rules.leasable(model).length);
    const answer = await real.client.post(`/v1/queues/${real.queue}/lease`, { maxJobs: this.maxJobs, worker: 'w' });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.jobs.length, expected);
    for (const given of answer.body.jobs) {
      const job = rules.leasable(model).find(({ id }) => id === given.id);
      assert.ok(job, `${given.id} is not to be leased`);
      assert.ok(rules.mayBeNext(model, job), `${given.id} is leased out of turn`);
      rules.lease(job, { token: given.leaseToken, epoch: given.leaseEpoch });
      const { priority, attempt, maxAttempts, leaseEpoch, payload } = given;
      const shown = { priority, attempt, maxAttempts, leaseEpoch, payload };
      const [{ priority: p, attempt: a, maxAttempts: m }, epoch] = [job, job.leases.length];
      assert.deepEqual(shown, { priority: p, attempt: a, maxAttempts: m, leaseEpoch: epoch, payload: job.payload });
    }
  }
}

/** Each verb minds those that it takes. */
interface SettleOptions {
  readonly inBatch: boolean;
  /** Not before an hour; otherwise at once. */
  readonly delay: boolean;
  readonly final: boolean;
}

class Settle implements Command {
  constructor(
    private readonly nth: number,
    private readonly verb: Verb,
    private readonly options: SettleOptions,
  ) {}
  check = (model: Readonly<Model>): boolean => model.jobs.some(({ leases }) => leases.length > 0);
  toString = (): string => `${this.verb}(${this.nth}, ${JSON.stringify(this.options)})`;

  async run(model: Model, { client }: Real): Promise<void> {
    const { job, lease } = leaseAt(model, this.nth);
    const { delay, final } = this.options;
    const item = {
      leaseToken: lease.token,
      ...(this.verb === 'nack' || this.verb === 'release' ? { delay: delay ? LONG : '0s' } : {}),
      ...(this.verb === 'nack' ? { final } : {}),
    };
    const { inBatch } = this.options;
    const answer = inBatch
      ? await client.post(`/v1/leases/${this.verb}`, { items: [item] })
      : await client.post(`/v1/jobs/${job.id}/${this.verb}`, item);
    const outcome = inBatch ? answer.body.results[0].outcome : answer.body.code;
    // A job that was to be cancelled is, once its expiry is noticed; until then its late ack counts.
    const late = this.verb === 'ack' && job.lapsed && rules.isLast(job, lease);
    if (late && job.cancelRequested && outcome === 'LEASE_LOST') rules.expire(model, [job]);
    const expected = rules.expectedOutcome(job, lease, this.verb);
    if (inBatch) {
      assert.equal(answer.status, 200, answer.text);
      checkOutcome(answer.body.results[0], expected);
    } else {
      checkSingle(answer, expected);
    }
    if (expected.outcome !== 'OK' || this.verb === 'heartbeat') return;
    if (this.verb === 'ack') return rules.complete(job, lease);
    const released = this.verb === 'release';
    rules.handBack(model, job, { ended: released ? 'released' : 'nacked', delayed: delay, final: final && !released });
  }
}

function checkSingle(answer: Answer, expected: rules.Expected): void {
  if (expected.outcome === 'LEASE_LOST') {
    assert.equal(`${answer.status} ${answer.body.code}`, '409 LEASE_LOST');
    checkOutcome({ ...answer.body, outcome: 'LEASE_LOST' }, expected);
  } else {
    assert.equal(answer.status, 200, answer.text);
    checkOutcome(answer.body, expected);
  }
}

function checkOutcome(result: any, { outcome, settledAs }: rules.Expected): void {
  assert.equal(result.outcome, outcome);
  if (settledAs !== undefined)
    assert.ok(
      settledAs.includes(result.settledAs?.toLowerCase()),
      `settledAs ${result.settledAs}, not ${settledAs.join(' or ')}`,
    );
}

class Expire implements Command {
  constructor(
    private readonly nth: number,
    private readonly notice: boolean,
  ) {}
  check = (model: Readonly<Model>): boolean => model.jobs.some(isRunning);
  toString = (): string => `expire(${this.nth}, ${this.notice ? 'noticed' : 'unnoticed'})`;

  async run(model: Model, real: Real): Promise<void> {
    const job = nthOf(model.jobs.filter(isRunning), this.nth);
    const moved = await real.service.sql(
      `update stint.lease set lease_expires_at = clock_timestamp() - interval '1 second' where job_id = $1::uuid returning job_id`,
      [job.id],
    );
    assert.equal(moved.length, 1);
    rules.lapse(model, job);
    if (this.notice) await noticeAll(model, real);
  }
}

class Promote implements Command {
  constructor(private readonly nth: number) {}
  check = (model: Readonly<Model>): boolean => model.jobs.some(({ state }) => state === 'scheduled');
  toString = (): string => `promote(${this.nth})`;

  async run(model: Model, { service, background }: Real): Promise<void> {
    const job = nthOf(
      model.jobs.filter(({ state }) => state === 'scheduled'),
      this.nth,
    );
    const moved = await service.sql(
      `update stint.scheduled set due_at = clock_timestamp() - interval '1 second' where job_id = $1::uuid returning job_id`,
      [job.id],
    );
    assert.equal(moved.length, 1);
    await background.promote([job.id]);
    rules.becomeReady(model, job);
  }
}

class Cancel implements Command {
  constructor(
    private readonly nth: number,
    private readonly force: boolean,
  ) {}
  check = (model: Readonly<Model>): boolean => model.jobs.length > 0;
  toString = (): string => `cancel(${this.nth}${this.force ? ', force' : ''})`;

  async run(model: Model, { client }: Real): Promise<void> {
    const job = nthOf(model.jobs, this.nth);
    const answer = await client.post(`/v1/jobs/${job.id}/cancel`, { force: this.force });
    if (job.lapsed) {
      // Unnoticed it is cancelled; noticed it is ready and is cancelled, or has died.
      const died = answer.status === 409;
      if (died) assert.ok(job.attempt >= job.maxAttempts && !job.cancelRequested);
      rules.expire(model, [job]);
      if (!died) job.state = 'cancelled';
    } else {
      assert.equal(answer.status, rules.cancel(job, this.force), answer.text);
    }
    if (answer.status === 200) assert.equal(answer.body.state, job.state);
    else assert.equal(answer.body.code, 'CONFLICT');
  }
}

class Patch implements Command {
  constructor(
    private readonly nth: number,
    private readonly priority: number,
  ) {}
  check = (model: Readonly<Model>): boolean => model.jobs.length > 0;
  toString = (): string => `patch(${this.nth}, priority ${this.priority})`;

  async run(model: Model, real: Real): Promise<void> {
    const job = nthOf(model.jobs, this.nth);
    if (job.lapsed) await noticeAll(model, real);
    const answer = await real.client.patch(`/v1/jobs/${job.id}`, { priority: this.priority });
    if (job.state !== 'ready' && job.state !== 'scheduled') {
      assert.equal(`${answer.status} ${answer.body.code}`, '409 CONFLICT');
      return;
    }
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.state, job.state);
    job.priority = this.priority;
    if (job.state === 'ready') rules.becomeReady(model, job);
  }
}

class Redrive implements Command {
  check = (): boolean => true;
  toString = (): string => 'redrive()';

  async run(model: Model, real: Real): Promise<void> {
    await noticeAll(model, real);
    const dead = model.jobs.filter(({ state }) => state === 'dead');
    const answer = await real.client.post(`/v1/queues/${real.queue}/dead/redrive`, {});
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.body, { matched: dead.length, redriven: dead.length });
    const step = model.step++;
    for (const job of dead) {
      rules.becomeReady(model, job);
      job.readyFrom = job.readyUntil = step;
      job.attempt = 0;
    }
  }
}

class Pause implements Command {
  constructor(private readonly paused: boolean) {}
  check = (): boolean => true;
  toString = (): string => (this.paused ? 'pause()' : 'resume()');

  async run(model: Model, { client, queue }: Real): Promise<void> {
    const answer = await client.post(`/v1/queues/${queue}/${this.paused ? 'pause' : 'resume'}`);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.body.paused, this.paused);
    model.paused = this.paused;
  }
}

class Look implements Command {
  constructor(private readonly nth: number) {}
  check = (model: Readonly<Model>): boolean => model.jobs.some(({ lapsed }) => !lapsed);
  toString = (): string => `look(${this.nth})`;

  async run(model: Model, real: Real): Promise<void> {
    await checkJob(
      nthOf(
        model.jobs.filter(({ lapsed }) => !lapsed),
        this.nth,
      ),
      real,
    );
  }
}

/** Everything is as the model says: each job, the dead letters, the counts. */
export async function checkAll(model: Model, real: Real): Promise<void> {
  await noticeAll(model, real);
  await Promise.all(model.jobs.map((job) => checkJob(job, real)));
  const dead = await real.client.get(`/v1/queues/${real.queue}/dead?limit=1000`);
  const idsIn = (state: rules.State): string[] => model.jobs.filter((job) => job.state === state).map(({ id }) => id);
  assert.deepEqual(dead.body.jobs.map(({ id }: { id: string }) => id).sort(), idsIn('dead').sort());
  const { body } = await real.client.get(`/v1/queues/${real.queue}`);
  const count = (state: rules.State): number => idsIn(state).length;
  const counts = { scheduled: count('scheduled'), ready: count('ready'), leased: count('leased'), dead: count('dead') };
  assert.deepEqual(body.counts, counts);
}

async function checkJob(job: ModelJob, { client }: Real): Promise<void> {
  const { status, body, text } = await client.get(`/v1/jobs/${job.id}`);
  assert.equal(status, 200, text);
  const { id, state, priority, attempt, maxAttempts, releases, cancelRequested, deadReason } = body;
  const attempts = body.attempts.map((one: any) => ({
    attempt: one.attempt,
    epoch: one.epoch,
    outcome: one.outcome.toLowerCase(),
  }));
  const seen = { id, state, priority, attempt, maxAttempts, releases, cancelRequested, deadReason, attempts };
  assert.deepEqual(seen, rules.shown(job));
}

async function noticeAll(model: Model, { background }: Real): Promise<void> {
  const lapsed = model.jobs.filter((job) => job.lapsed);
  if (lapsed.length === 0) return;
  await background.noticeExpiry(lapsed.map(({ id }) => id));
  rules.expire(model, lapsed);
}

function isRunning({ state, lapsed }: ModelJob): boolean {
  return state === 'leased' && !lapsed;
}

function nthOf<T>(items: readonly T[], nth: number): T {
  return items[nth % items.length]!;
}

/** Favours current leases and such as have run out: three picks of four are one, if there is any. */
function leaseAt(model: Model, nth: number): { job: ModelJob; lease: ModelLease } {
  const all = model.jobs.flatMap((job) => job.leases.map((lease) => ({ job, lease })));
  const current = all.filter(({ job, lease }) => job.state === 'leased' && rules.isLast(job, lease));
  const expired = all.filter(({ job, lease }) => lease.ended === 'expired' && rules.isLast(job, lease));
  const favoured = [current, current, expired, all][nth % 4]!;
  return nthOf(favoured.length > 0 ? favoured : all, nth >> 2);
}
