import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Departure } from '../../src/core/departure.js';
import { Expectations } from '../../src/hotpath/expectations.js';
import { Lanes } from '../../src/hotpath/lanes.js';
import { planRound } from '../../src/hotpath/plan-round.js';
import type { Round } from '../../src/hotpath/round.js';
import type { Waiter } from '../../src/hotpath/waiter.js';
import { WorkFlags } from '../../src/hotpath/work-flags.js';

function waiter(
  tenantId: string,
  queues: Record<number, number>,
  options: { maxJobs?: number; mustLook?: boolean; busy?: boolean; wait?: number } = {},
): Waiter {
  const { maxJobs = 1, mustLook = false, busy = false, wait = 1_000 } = options;
  return {
    request: {
      tenantId,
      queues: [],
      maxJobs,
      wait,
      visibilityTimeout: undefined,
      worker: undefined,
      departure: new Departure(),
      park: () => () => undefined,
      idled: () => undefined,
    },
    queues: new Map(Object.entries(queues).map(([id, weight]) => [Number(id), { name: `q${id}`, weight }])),
    unknown: new Map(),
    mustLook,
    busy,
    until: Infinity,
    timer: undefined,
    ended: undefined,
    unpark: undefined,
    idleSince: undefined,
    idle: 0,
    answer: () => undefined,
  };
}

function expecting(): Expectations {
  const queues = { limits: () => ({ limited: false, rateInterval: null }) };
  return new Expectations({ queues, lanes: new Lanes(), onPace: () => undefined });
}

function emptyQueue(queueId: number): Expectations {
  const expectations = expecting();
  expectations.flags.empty(queueId, expectations.flags.version);
  return expectations;
}

function plan(waiters: readonly Waiter[], expectations = expecting()): Round {
  return planRound(new Set(waiters), expectations);
}

describe('the appetite for a queue', () => {
  const parked = (count: number, mustLook = false): Waiter[] =>
    Array.from({ length: count }, () => waiter('a', { 1: 1 }, { mustLook }));

  it('serves few of many parked leases at first, those that have waited longest', () => {
    const waiters = parked(500);
    const round = plan(waiters);
    assert.equal(round.waiters.length, 16);
    assert.deepEqual(round.waiters, waiters.slice(0, 16));
  });

  it('grows while every lease gets its fill, and shrinks again when they do not', () => {
    const expectations = expecting();
    const learn = (filled: boolean): number => {
      const round = plan(parked(3_000), expectations);
      const rows = filled ? round.waiters.length : 1;
      const taken = new Map([[1, new Map([[0, { pos: 1, rows }]])]]);
      expectations.learn(round, { jobs: [], taken, found: new Map([[1, rows]]) });
      return round.waiters.length;
    };
    assert.deepEqual(
      Array.from({ length: 5 }, () => learn(true)),
      [16, 64, 256, 1_024, 2_000],
    );
    for (let round = 0; round < 10; round += 1) {
      learn(false);
      expectations.flags.mark([1]);
    }
    assert.equal(plan(parked(500), expectations).waiters.length, 16);
  });

  it('leaves out nobody who has to look, and takes nothing from what one lease wants', () => {
    assert.equal(plan(parked(500, true)).waiters.length, 500);
    const [asked] = plan([waiter('a', { 1: 1 }, { maxJobs: 1_000 })]).queues;
    assert.equal(asked!.limit, 1_000);
  });
});

describe('word of work', () => {
  it('is believed of a queue never heard of', () => {
    assert.equal(new WorkFlags().knownEmpty(1), false);
  });

  it('is taken back by a look that began after it', () => {
    const flags = new WorkFlags();
    flags.mark([1]);
    flags.empty(1, flags.version);
    assert.equal(flags.knownEmpty(1), true);
  });

  it('outlives a look that began before it', () => {
    const flags = new WorkFlags();
    const begun = flags.version;
    flags.mark([1]);
    flags.empty(1, begun);
    assert.equal(flags.knownEmpty(1), false);
  });

  it('of all queues outlives looks that began before it', () => {
    const flags = new WorkFlags();
    flags.empty(1, flags.version);
    const begun = flags.version;
    flags.mark('all');
    assert.equal(flags.knownEmpty(1), false);
    flags.polled([1, 2], begun);
    assert.equal(flags.knownEmpty(1) || flags.knownEmpty(2), false);
    flags.polled([1], flags.version);
    assert.deepEqual([flags.knownEmpty(1), flags.knownEmpty(2)], [true, false]);
  });

  it('of one queue says nothing of another', () => {
    const flags = new WorkFlags();
    flags.polled([1, 2], flags.version);
    flags.mark([2]);
    assert.deepEqual([flags.knownEmpty(1), flags.knownEmpty(2)], [true, false]);
  });

  it('of more queues than are remembered makes all of them be looked at', () => {
    const flags = new WorkFlags();
    const begun = flags.version;
    flags.empty(1, begun);
    flags.mark(Array.from({ length: 200_001 }, (_, n) => n + 10));
    flags.empty(1, begun);
    assert.equal(flags.knownEmpty(1), false);
  });
});

describe('a round', () => {
  it('gives each waiter as many slots as it wants jobs, queue by queue, sorted', () => {
    const round = plan([
      waiter('t', { 5: 1 }, { maxJobs: 3 }),
      waiter('u', { 2: 1 }),
      waiter('v', { 5: 1 }, { maxJobs: 2 }),
    ]);
    assert.deepEqual(
      round.queues.map(({ queueId, offset, limit, waiters }) => [queueId, offset, limit, waiters]),
      [
        [2, 0, 1, [1]],
        [5, 1, 5, [0, 2]],
      ],
    );
    assert.deepEqual(round.slotWaiter, [1, 0, 0, 0, 2, 2]);
    assert.equal(new Set(round.leaseIds).size, 6, 'a lease id for each slot');
  });

  it('passes over those who are in a claim already, and those whose queues are known to be empty', () => {
    const served = waiter('t', { 2: 1 });
    const round = plan([waiter('t', { 2: 1 }, { busy: true }), waiter('t', { 1: 1 }), served], emptyQueue(1));
    assert.deepEqual(round.waiters, [served]);
  });

  it('looks for whoever has not looked yet, whatever is known', () => {
    assert.equal(plan([waiter('t', { 1: 1 }, { mustLook: true })], emptyQueue(1)).waiters.length, 1);
  });

  it('takes tenants in turn when not all have room', () => {
    const flood = Array.from({ length: 30 }, () => waiter('flood', { 1: 1 }, { maxJobs: 200 }));
    const small = [waiter('small', { 2: 1 }, { maxJobs: 200 }), waiter('other', { 3: 1 }, { maxJobs: 200 })];
    const { waiters } = plan([...flood, ...small]);
    assert.ok(waiters.length < 32, 'there is a bound');
    assert.deepEqual(
      waiters.slice(0, 3).map(({ request }) => request.tenantId),
      ['flood', 'small', 'other'],
    );
  });

  it('serves those of a tenant that have waited longest first', () => {
    const line = Array.from({ length: 5 }, () => waiter('t', { 1: 1 }, { maxJobs: 1_000, mustLook: true }));
    assert.deepEqual(plan(line).waiters, line.slice(0, 2));
  });

  it('asks each of many queues for a little until it is known what they give, and never for more slots than there are', () => {
    const queues = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [n + 1, 1]));
    const round = plan([waiter('t', queues, { maxJobs: 1_000 })]);
    assert.deepEqual([round.queues.length, round.slotWaiter.length, round.partial.size], [100, 1_600, 0]);
    const others = plan([
      waiter('t', queues, { maxJobs: 1_000 }),
      waiter('t', queues, { maxJobs: 1_000, mustLook: true }),
    ]);
    assert.ok(others.slotWaiter.length <= 2_000);
  });

  it('asks no further queue once those asked are likely to give all that is wanted; who gets nothing looks again', () => {
    const queues = { 1: 1, 2: 1, 3: 1, 4: 1 };
    const expectations = expecting();
    const all = plan([waiter('t', queues, { maxJobs: 100 })], expectations);
    const taken = new Map([1, 2, 3, 4].map((id) => [id, new Map([[0, { pos: 1, rows: 16 }]])]));
    expectations.learn(all, { jobs: [], taken, found: new Map([1, 2, 3, 4].map((id) => [id, 16])) });
    const one = plan([waiter('t', queues, { maxJobs: 16 })], expectations);
    assert.deepEqual([one.queues.length, one.slotWaiter.length, [...one.partial]], [1, 16, [0]]);
    const two = plan([waiter('t', queues, { maxJobs: 32 })], expectations);
    assert.deepEqual([two.queues.length, two.slotWaiter.length, [...two.partial]], [2, 64, [0]]);
  });

  it('does not count on rows that another lease of the round is likely to get', () => {
    const expectations = expecting();
    const all = plan([waiter('t', { 1: 1 }, { maxJobs: 16 })], expectations);
    const taken = new Map([[1, new Map([[0, { pos: 1, rows: 16 }]])]]);
    expectations.learn(all, { jobs: [], taken, found: new Map([[1, 16]]) });
    const first = waiter('t', { 1: 1 }, { maxJobs: 16 });
    const second = waiter('t', { 1: 100, 2: 1 }, { maxJobs: 16 });
    assert.deepEqual(
      plan([first, second], expectations).queues.map(({ waiters }) => waiters),
      [[0, 1], [1]],
    );
  });

  it('passes over queues that are believed empty while others may have jobs; a lease that does not park asks them, too, but last', () => {
    const expectations = expecting();
    expectations.flags.empty(1, expectations.flags.version);
    const asked = (settings: object): number[][] => {
      const { queues, slotPreference } = plan([waiter('t', { 1: 1_000, 2: 1 }, settings)], expectations);
      return queues.map(({ queueId, offset }) => [slotPreference[offset]!, queueId]).sort();
    };
    assert.deepEqual(asked({ mustLook: true }), [[0, 2]]);
    assert.deepEqual(asked({ mustLook: true, wait: 0 }), [
      [0, 2],
      [1, 1],
    ]);
    expectations.flags.empty(2, expectations.flags.version);
    assert.equal(asked({ mustLook: true }).length, 2);
    assert.equal(asked({}).length, 0);
  });

  it('believes a queue empty that had less than was asked for, if all of that was taken', () => {
    const expectations = expecting();
    const emptied = (taken: number, found: number): boolean => {
      expectations.flags.mark([1]);
      const round = plan([waiter('t', { 1: 1 }, { maxJobs: 10 })], expectations);
      const lanes = new Map([[1, new Map([[0, { pos: 1, rows: taken }]])]]);
      expectations.learn(round, { jobs: [], taken: taken === 0 ? new Map() : lanes, found: new Map([[1, found]]) });
      return expectations.flags.knownEmpty(1);
    };
    assert.equal(emptied(0, 0), true);
    assert.equal(emptied(9, 9), true);
    assert.equal(emptied(10, 10), false);
    assert.equal(emptied(3, 9), false, 'their waiter had enough and left some');
  });

  it('prefers queues by their weights, at random', () => {
    let heavyFirst = 0;
    const rounds = 2_000;
    for (let n = 0; n < rounds; n += 1) {
      const round = plan([waiter('t', { 1: 9, 2: 1 })]);
      if (round.slotPreference[round.queues.find(({ queueId }) => queueId === 1)!.offset] === 0) heavyFirst += 1;
    }
    // 90 % are expected; six standard deviations are 4 %.
    assert.ok(Math.abs(heavyFirst / rounds - 0.9) < 0.04, `${heavyFirst} of ${rounds}`);
  });
});
