import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { TokenBucket } from '../../src/tenants/token-bucket.js';

const NEARLY = 1e-6;

const rates = fc.oneof(fc.double({ min: 0.05, max: 1_000, noNaN: true }), fc.integer({ min: 1, max: 1_000_000 }));
/** Milliseconds until the next call, and how much it takes. */
const calls = fc.array(fc.tuple(fc.double({ min: 0, max: 3_000, noNaN: true }), fc.integer({ min: 1, max: 1_000 })), {
  minLength: 1,
  maxLength: 200,
});

interface Through {
  readonly at: number;
  readonly count: number;
}

function letThrough(bucket: TokenBucket, asked: readonly (readonly [number, number])[]): Through[] {
  const through: Through[] = [];
  let now = 0;
  for (const [pause, count] of asked) {
    now += pause;
    if (bucket.take(count, now) === 0) through.push({ at: now, count });
  }
  return through;
}

describe('a token bucket', () => {
  it('lets no more through in any window than its rate brings in that time, what it holds, and the last take that began it', () => {
    fc.assert(
      fc.property(rates, calls, (rate, asked) => {
        const bucket = new TokenBucket(rate, 0);
        const through = letThrough(bucket, asked);
        through.forEach((first, from) => {
          let sum = 0;
          for (const { at, count } of through.slice(from)) {
            // Before each take something was there: all before it are within the rate, and it alone may go beyond.
            const seconds = (at - first.at) / 1_000;
            assert.ok(sum <= rate * seconds + bucket.capacity + NEARLY * rate, `${sum} in ${seconds} s at ${rate}`);
            sum += count;
          }
        });
      }),
    );
  });

  it('makes up for what went beyond: over a long time the rate holds for batches of any size', () => {
    fc.assert(
      fc.property(rates, fc.integer({ min: 1, max: 1_000 }), (rate, batch) => {
        const bucket = new TokenBucket(rate, 0);
        const seconds = Math.max(100, (10 * batch) / rate);
        const asked = Array.from({ length: 2_000 }, () => [seconds / 2, batch] as const);
        const sum = letThrough(bucket, asked).reduce((all, { count }) => all + count, 0);
        assert.ok(sum <= rate * seconds + bucket.capacity + batch, `${sum} in ${seconds} s at ${rate}`);
      }),
      { numRuns: 30 },
    );
  });

  it('lets through no less than its rate when it is asked for more all the time', () => {
    fc.assert(
      fc.property(rates, fc.double({ min: 1.1, max: 20, noNaN: true }), (rate, times) => {
        const bucket = new TokenBucket(rate, 0);
        const pause = 1_000 / (rate * times);
        const asked = Array.from({ length: 5_000 }, () => [pause, 1] as const);
        const sum = letThrough(bucket, asked).length;
        const expected = Math.min(asked.length, (rate * pause * asked.length) / 1_000);
        assert.ok(sum >= expected - 1, `${sum} of ${expected} at ${rate}`);
      }),
      { numRuns: 30 },
    );
  });

  it('says after how long a refused take goes through: then it does, and not a moment before', () => {
    fc.assert(
      fc.property(rates, calls, fc.integer({ min: 1, max: 1_000 }), (rate, asked, count) => {
        const bucket = new TokenBucket(rate, 0);
        let now = 0;
        for (const [pause, taken] of asked) bucket.take(taken, (now += pause));
        const wait = bucket.take(count, now);
        if (wait === 0) return;
        assert.notEqual(bucket.take(count, now + wait * 999 - NEARLY), 0);
        assert.equal(bucket.take(count, now + wait * 1_000 + NEARLY * 1_000), 0);
      }),
    );
  });

  it('has after a put-back exactly what it had before the take', () => {
    fc.assert(
      fc.property(rates, calls, fc.integer({ min: 1, max: 1_000 }), (rate, asked, count) => {
        const bucket = new TokenBucket(rate, 0);
        let now = 0;
        for (const [pause, taken] of asked) bucket.take(taken, (now += pause));
        const before = bucket.left(now);
        if (bucket.take(count, now) !== 0) return;
        bucket.putBack(count);
        assert.ok(Math.abs(bucket.left(now) - before) < NEARLY, `${bucket.left(now)} in place of ${before}`);
      }),
    );
  });

  it('takes nothing when it refuses', () => {
    const bucket = new TokenBucket(2, 0);
    assert.equal(bucket.take(5, 0), 0);
    assert.equal(bucket.left(0), -3);
    for (let tries = 0; tries < 10; tries += 1) assert.equal(bucket.take(1, 0), 2);
    assert.equal(bucket.left(0), -3);
  });

  it('holds no more than its new rate brings in a second when that is lowered, and fills at a new rate from then on', () => {
    const bucket = new TokenBucket(100, 0);
    bucket.setRate(10, 0);
    assert.equal(bucket.left(0), 11);
    bucket.setRate(1_000, 500);
    assert.equal(bucket.left(500), 11);
    assert.equal(bucket.left(600), 111);
    assert.ok(Math.abs(bucket.untilFull(600) - 0.889) < NEARLY);
  });

  it('costs who returns a little late nothing of a low rate', () => {
    const bucket = new TokenBucket(1, 0);
    assert.equal(bucket.take(1, 0), 0);
    for (let calls = 1; calls < 9; calls += 1) assert.equal(bucket.take(1, calls * 1_100), 0);
    assert.ok(bucket.left(8 * 1_100) > 0.7);
    assert.equal(bucket.left(100_000), 2);
  });

  it('lets one through now and then at a rate below one a second', () => {
    const bucket = new TokenBucket(0.5, 0);
    assert.equal(bucket.take(1, 0), 0);
    assert.equal(bucket.take(1, 1_000), 1);
    assert.equal(bucket.take(1, 2_000), 0);
  });
});
