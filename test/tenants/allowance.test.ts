import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ServiceError } from '../../src/errors.js';
import { Allowance, type Rated, type Usage } from '../../src/tenants/allowance.js';

const EXCHANGE_MS = 500;
const STEP_MS = 10;
const WINDOW_MS = 10_000;
const LIMIT = 200;

/** How many calls a second an instance is asked for at that time. */
type Demand = (instance: number, milliseconds: number) => number;

interface Simulated {
  readonly demand: Demand;
  readonly instances: number;
  readonly seconds?: number;
  readonly limit?: number;
  readonly rated?: Rated;
  /** How many come at once. */
  readonly batch?: number;
}

/** What is let through in all instances together, step by step, while they tell each other what they use. */
function simulate({
  demand,
  instances,
  seconds = 30,
  limit = LIMIT,
  rated = 'requests',
  batch = 1,
}: Simulated): number[] {
  const limits = { requestsPerSecond: limit, jobsPerSecond: limit };
  const all = Array.from({ length: instances }, () => new Allowance('tenant', limits, 0));
  const reported = new Map<number, { readonly usage: Usage; readonly at: number }>();
  const owed = all.map(() => 0);
  const through: number[] = [];
  for (let now = 0; now < seconds * 1_000; now += STEP_MS) {
    let sum = 0;
    all.forEach((allowance, index) => {
      owed[index]! += (demand(index, now) * STEP_MS) / 1_000;
      for (; owed[index]! >= batch; owed[index]! -= batch) sum += taken(allowance, { rated, batch, now });
      // Each in its own time, as the instances' tasks run.
      const phase = Math.round((index * EXCHANGE_MS) / instances / STEP_MS) * STEP_MS;
      if (now % EXCHANGE_MS === phase) exchange(allowance, { index, now, reported });
    });
    through.push(sum);
  }
  return through;
}

function taken(allowance: Allowance, take: { rated: Rated; batch: number; now: number }): number {
  try {
    allowance.take(take.rated, take.batch, take.now);
    return take.batch;
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.code === 'RATE_LIMITED');
    return 0;
  }
}

function exchange(
  allowance: Allowance,
  { index, now, reported }: { index: number; now: number; reported: Map<number, { usage: Usage; at: number }> },
): void {
  reported.set(index, { usage: allowance.measure(now), at: now });
  const others = [...reported].filter(([other, { at }]) => other !== index && now - at < 5_000);
  const sum = (of: keyof Usage): number => others.reduce((all, [, { usage }]) => all + usage[of], 0);
  allowance.setElsewhere(
    {
      requests: sum('requests'),
      jobs: sum('jobs'),
      parked: sum('parked'),
      streams: sum('streams'),
      instances: others.length,
    },
    now,
  );
}

/** Sums over every stretch of 10 s after the first second. */
function windows(through: readonly number[]): number[] {
  const length = WINDOW_MS / STEP_MS;
  const steps = through.slice(1_000 / STEP_MS);
  return steps
    .slice(0, steps.length - length)
    .map((_, from) => steps.slice(from, from + length).reduce((a, b) => a + b));
}

function assertWithin(simulated: Simulated, { least = 0.8, most = 1.2 }: { least?: number; most?: number } = {}): void {
  const whole = (simulated.limit ?? LIMIT) * (WINDOW_MS / 1_000);
  const sums = windows(simulate(simulated));
  const [low, high] = [Math.min(...sums) / whole, Math.max(...sums) / whole];
  assert.ok(high <= most, `${(100 * high).toFixed(0)} % of the limit were let through`);
  assert.ok(low >= least, `only ${(100 * low).toFixed(0)} % of the limit were let through`);
}

describe('instances that share a limit', () => {
  it('one alone lets the whole limit through', () => {
    assertWithin({ instances: 1, demand: () => 1_000 }, { least: 0.99, most: 1.02 });
  });

  for (const instances of [2, 3, 8]) {
    it(`${instances} that are asked evenly let the limit through, and no more`, () => {
      assertWithin({ instances, demand: () => 1_000 });
      assertWithin({ instances, demand: () => (LIMIT * 1.3) / instances });
    });

    it(`one of ${instances} that alone is asked lets it all through`, () => {
      assertWithin({ instances, demand: (index) => (index === 0 ? 1_000 : 0) });
      assertWithin({ instances, demand: (index) => (index === 0 ? 5_000 : 5) });
      assertWithin({ instances, demand: (index) => (index === 0 ? 5_000 : 50) });
    });

    it(`${instances} of which one after the other is asked let it through, when they change each 5 s or less often`, () => {
      for (const period of [5_000, 8_000]) {
        const demand: Demand = (index, now) => (Math.floor(now / period) % instances === index ? 1_000 : 0);
        assertWithin({ instances, demand });
      }
    });

    it(`${instances} that are asked in bursts never let more than the limit through`, () => {
      const bursts = fc.record({
        period: fc.integer({ min: 1, max: 12 }).map((n) => n * 250),
        share: fc.double({ min: 0.05, max: 0.95, noNaN: true }),
        demand: fc.integer({ min: 20, max: 3_000 }),
        together: fc.boolean(),
      });
      fc.assert(
        fc.property(bursts, ({ period, share, demand, together }) => {
          const shifted = (index: number, now: number): number => (together ? now : now + (index * period) / instances);
          assertWithin(
            {
              instances,
              demand: (index, now) => (shifted(index, now) % period < period * share ? demand : 0),
            },
            { least: 0, most: 1.2 },
          );
        }),
        { numRuns: 12 },
      );
    });
  }

  it('never lets more than the limit through after a silence, when all are asked at once', () => {
    assertWithin({ instances: 4, demand: (_, now) => (now < 6_000 ? 1 : 1_000) }, { least: 0 });
  });

  it('holds the limit of jobs for batches far larger than a second brings', () => {
    for (const pause of [3, 10, 20]) {
      const through = simulate({
        instances: 2,
        rated: 'jobs',
        limit: 100,
        batch: 1_000,
        seconds: 200,
        demand: () => 1_000 / pause,
      });
      const sum = through.reduce((a, b) => a + b);
      // Each instance may go beyond once, by what it made up for no more.
      assert.ok(sum <= 100 * 200 * 1.2 + 2 * 1_000, `${sum} jobs in 200 s, a batch each ${pause} s`);
      assert.ok(sum >= Math.min(2 * (1_000 / pause), 100) * 200 * 0.8, `${sum} jobs in 200 s, a batch each ${pause} s`);
    }
  });
});

describe('an allowance', () => {
  const refused = (code: string, says: RegExp) => (error: unknown) =>
    error instanceof ServiceError && error.code === code && says.test(error.message) && (error.retryAfter ?? 0) > 0;

  it('names the limit that refuses, and whose it is', () => {
    const limits = { requestsPerSecond: 1, jobsPerSecond: 2, parkedLeases: 1, streams: 1, storedJobs: 3 };
    const allowance = new Allowance('key', limits, 0);
    allowance.take('requests', 1, 0);
    assert.throws(
      () => allowance.take('requests', 1, 0),
      refused('RATE_LIMITED', /^the key may have 1 request a second$/),
    );
    allowance.take('jobs', 2, 0);
    assert.throws(() => allowance.take('jobs', 1, 0), refused('RATE_LIMITED', /^the key may have 2 jobs a second$/));
    allowance.store(3, 0);
    assert.throws(() => allowance.store(1, 0), refused('QUOTA_EXCEEDED', /^the key may have 3 stored jobs$/));
    allowance.hold('parked', 0);
    assert.throws(
      () => allowance.hold('parked', 0),
      refused('QUOTA_EXCEEDED', /^the key may have 1 parked lease at once$/),
    );
    allowance.hold('streams', 0);
    assert.throws(() => allowance.hold('streams', 0), refused('QUOTA_EXCEEDED', /^the key may have 1 stream at once$/));
  });

  it('counts what the other instances hold', () => {
    const allowance = new Allowance('tenant', { parkedLeases: 3 }, 0);
    allowance.setElsewhere({ requests: 0, jobs: 0, parked: 2, streams: 0, instances: 1 }, 0);
    allowance.hold('parked', 0);
    assert.throws(() => allowance.hold('parked', 0), refused('QUOTA_EXCEEDED', /3 parked/));
    allowance.release('parked');
    allowance.hold('parked', 0);
  });

  it('asks for nothing that was put back: a flood that the key refuses is none of the tenant', () => {
    const allowance = new Allowance('tenant', { requestsPerSecond: 100 }, 0);
    for (let call = 0; call < 50; call += 1) {
      allowance.take('requests', 1, 0);
      allowance.putBack('requests', 1);
    }
    assert.equal(allowance.measure(500).requests, 0);
    assert.equal(allowance.rate(500)?.remaining, 100);
  });

  it('forgets what was asked for long ago wholly: the database takes no number as small as memory fades to', () => {
    const allowance = new Allowance('tenant', { requestsPerSecond: 10, jobsPerSecond: 10 }, 0);
    allowance.take('requests', 1, 0);
    allowance.take('jobs', 1, 0);
    for (let now = 500; now < 120_000; now += 500) {
      const { requests, jobs } = allowance.measure(now);
      for (const rate of [requests, jobs]) assert.ok(rate === 0 || rate > 1e-6, String(rate));
    }
  });

  it('keeps count of jobs that began to be stored while the stored ones were counted', () => {
    const allowance = new Allowance('tenant', { storedJobs: 10 }, 0);
    allowance.store(4, 0);
    allowance.stored(4);
    allowance.store(5, 0);
    const among = allowance.storedSince;
    assert.equal(among, 4, 'what is not committed is not among those that are counted');
    allowance.stored(5);
    allowance.setStored(4, among);
    assert.throws(() => allowance.store(2, 0), refused('QUOTA_EXCEEDED', /10 stored jobs/));
    allowance.store(1, 0);
    allowance.unstore(1);
    allowance.store(1, 0);
  });

  it('knows no bound that is not given, and none that was taken away', () => {
    const allowance = new Allowance('tenant', { requestsPerSecond: 1, storedJobs: 1 }, 0);
    allowance.setLimits({}, 0);
    for (let call = 0; call < 1_000; call += 1) allowance.take('requests', 1, 0);
    allowance.store(1_000_000, 0);
    assert.equal(allowance.rate(0), undefined);
    assert.ok(!allowance.isShared && !allowance.boundsStored);
  });

  it('says how many calls may come at once, and in how many whole seconds the whole limit is there', () => {
    const allowance = new Allowance('tenant', { requestsPerSecond: 10 }, 0);
    assert.deepEqual(allowance.rate(0), { limit: 10, remaining: 10, reset: 0 });
    for (let call = 0; call < 10; call += 1) allowance.take('requests', 1, 0);
    assert.deepEqual(allowance.rate(0), { limit: 10, remaining: 0, reset: 1 });
    assert.deepEqual(allowance.rate(450), { limit: 10, remaining: 4, reset: 1 });
  });
});
