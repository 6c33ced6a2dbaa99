import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { CronFault, readCron } from '../../src/schedules/cron.js';

/** C33, C34, C35: clocks that change, with whatever zone the host is in. */

const HOUR_MS = 3_600_000;

/** The first `count` times after `from`, in UTC without seconds of zero and `Z`. */
function times(cron: string, zone: string, from: string, count: number): string[] {
  const after = readCron(cron, zone);
  const found: string[] = [];
  for (let at = after(Date.parse(from)); at !== undefined && found.length < count; at = after(at)) {
    found.push(new Date(at).toISOString().replace(/:00\.000Z$|\.000Z$/, ''));
  }
  return found;
}

interface Change {
  readonly about: string;
  readonly zone: string;
  readonly cron: string;
  readonly from: string;
  readonly runs: readonly string[];
}

const CHANGES: readonly Change[] = [
  {
    about: 'a fixed time that does not exist that day runs once, at the jump',
    zone: 'Europe/Kyiv',
    cron: '30 3 * * *',
    from: '2026-03-28T00:00:00Z',
    runs: ['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30'],
  },
  {
    about: 'a fixed time that occurs twice runs once, the first time',
    zone: 'Europe/Kyiv',
    cron: '30 3 * * *',
    from: '2026-10-24T12:00:00Z',
    runs: ['2026-10-25T00:30', '2026-10-26T01:30'],
  },
  {
    about: 'the same',
    zone: 'America/New_York',
    cron: '30 2 * * *',
    from: '2026-03-07T12:00:00Z',
    runs: ['2026-03-08T07:00', '2026-03-09T06:30'],
  },
  {
    about: 'the same',
    zone: 'America/New_York',
    cron: '30 1 * * *',
    from: '2026-10-31T12:00:00Z',
    runs: ['2026-11-01T05:30', '2026-11-02T06:30'],
  },
  {
    about: 'several fixed times in the gap are one run',
    zone: 'America/New_York',
    cron: '0,30 2 * * *',
    from: '2026-03-08T00:00:00Z',
    runs: ['2026-03-08T07:00', '2026-03-09T06:00', '2026-03-09T06:30'],
  },
  {
    about: 'every half hour goes on through both hours',
    zone: 'America/New_York',
    cron: '*/30 * * * *',
    from: '2026-11-01T04:45:00Z',
    runs: ['2026-11-01T05:00', '2026-11-01T05:30', '2026-11-01T06:00', '2026-11-01T06:30', '2026-11-01T07:00'],
  },
  {
    about: 'every minute goes on over the gap',
    zone: 'America/New_York',
    cron: '* * * * *',
    from: '2026-03-08T06:58:00Z',
    runs: ['2026-03-08T06:59', '2026-03-08T07:00', '2026-03-08T07:01'],
  },
  {
    about: 'every hour, written as a range, goes by elapsed time as `*` does',
    zone: 'America/New_York',
    cron: '0 0-23 * * *',
    from: '2026-11-01T04:30:00Z',
    runs: ['2026-11-01T05:00', '2026-11-01T06:00', '2026-11-01T07:00'],
  },
  {
    about: 'half an hour of daylight saving: the gap',
    zone: 'Australia/Lord_Howe',
    cron: '15 2 * * *',
    from: '2026-10-02T16:00:00Z',
    runs: ['2026-10-03T15:30', '2026-10-04T15:15'],
  },
  {
    about: 'half an hour of daylight saving: the repeated half hour',
    zone: 'Australia/Lord_Howe',
    cron: '45 1 * * *',
    from: '2026-04-03T15:00:00Z',
    runs: ['2026-04-04T14:45', '2026-04-05T15:15'],
  },
  {
    about: 'a midnight that does not exist',
    zone: 'America/Santiago',
    cron: '0 0 * * 0',
    from: '2022-08-28T12:00:00Z',
    runs: ['2022-09-04T04:00', '2022-09-11T04:00', '2022-09-18T03:00'],
  },
  {
    about: 'a midnight that occurs twice',
    zone: 'America/Santiago',
    cron: '30 23 * * *',
    from: '2026-04-04T12:00:00Z',
    runs: ['2026-04-05T02:30', '2026-04-06T03:30'],
  },
  {
    about: 'winter time as the exception',
    zone: 'Europe/Dublin',
    cron: '30 1 * * *',
    from: '2026-03-28T12:00:00Z',
    runs: ['2026-03-29T01:00', '2026-03-30T00:30'],
  },
  {
    about: 'the same in autumn',
    zone: 'Europe/Dublin',
    cron: '30 1 * * *',
    from: '2026-10-24T12:00:00Z',
    runs: ['2026-10-25T00:30', '2026-10-26T01:30'],
  },
  {
    about: 'a midnight that does not exist, on a Friday',
    zone: 'Africa/Cairo',
    cron: '0 0 * * *',
    from: '2026-04-22T23:00:00Z',
    runs: ['2026-04-23T22:00', '2026-04-24T21:00'],
  },
  {
    about: 'a day that does not exist has no run',
    zone: 'Pacific/Apia',
    cron: '0 12 * * *',
    from: '2011-12-29T00:00:00Z',
    runs: ['2011-12-29T22:00', '2011-12-30T22:00', '2011-12-31T22:00'],
  },
  {
    about: 'every hour over a day that does not exist',
    zone: 'Pacific/Apia',
    cron: '0 * * * *',
    from: '2011-12-30T08:30:00Z',
    runs: ['2011-12-30T09:00', '2011-12-30T10:00', '2011-12-30T11:00'],
  },
  {
    about: 'a leap over midnight: the evening that does not exist runs at the jump',
    zone: 'America/Nuuk',
    cron: '30 23 * * *',
    from: '2026-03-27T12:00:00Z',
    runs: ['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30'],
  },
  {
    about: 'the last Sunday at a time that does not exist',
    zone: 'Europe/Lisbon',
    cron: '0 1 30 3 *',
    from: '2025-03-27T12:00:00Z',
    runs: ['2025-03-30T01:00', '2026-03-30T00:00', '2027-03-30T00:00'],
  },
];

describe('when clocks change', () => {
  for (const { about, zone, cron, from, runs } of CHANGES) {
    test(`${about}: ${cron} in ${zone}`, () => {
      assert.deepEqual(times(cron, zone, from, runs.length), runs);
    });
  }

  test('the zone of the host does not matter', () => {
    const before = process.env['TZ'];
    try {
      for (const host of ['Australia/Sydney', 'America/Santiago', 'Pacific/Apia']) {
        process.env['TZ'] = host;
        assert.equal(new Intl.DateTimeFormat().resolvedOptions().timeZone, host);
        for (const { zone, cron, from, runs } of CHANGES) {
          assert.deepEqual(times(cron, zone, from, runs.length), runs, `${cron} in ${zone} on a host in ${host}`);
        }
        assert.deepEqual(times('0 * * * *', 'UTC', '2025-10-04T15:30:00Z', 2), [
          '2025-10-04T16:00',
          '2025-10-04T17:00',
        ]);
      }
    } finally {
      if (before === undefined) delete process.env['TZ'];
      else process.env['TZ'] = before;
    }
  });

  test('it does not matter when one begins to look, also within the repeated hour', () => {
    for (const { zone, cron, from, runs } of CHANGES) {
      const whole = times(cron, zone, from, runs.length);
      for (let start = Date.parse(from); start < Date.parse(from) + 24 * HOUR_MS; start += 0.25 * HOUR_MS) {
        const [first] = times(cron, zone, new Date(start).toISOString(), 1);
        const known = whole.find((at) => Date.parse(`${at}Z`) > start);
        if (known !== undefined) assert.equal(first, known, `${cron} ${zone} after ${new Date(start).toISOString()}`);
      }
    }
  });
});

const ZONES = [...new Set(CHANGES.map(({ zone }) => zone)), 'UTC', 'Africa/Casablanca', 'Asia/Kathmandu'];
const field = (lowest: number, highest: number) =>
  fc.oneof(
    fc.constant('*'),
    fc.integer({ min: 2, max: highest }).map((step) => `*/${step}`),
    fc
      .uniqueArray(fc.integer({ min: lowest, max: highest }), { minLength: 1, maxLength: 4 })
      .map((list) => list.join(',')),
    fc
      .tuple(fc.integer({ min: lowest, max: highest }), fc.integer({ min: lowest, max: highest }))
      .map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
  );
const expressions = fc
  .tuple(
    fc.option(field(0, 59), { nil: undefined }),
    field(0, 59),
    field(0, 23),
    fc.oneof(fc.constant('*'), field(1, 28), fc.constant('L')),
    fc.oneof(fc.constant('*'), field(1, 12)),
    fc.oneof(fc.constant('*'), field(0, 6)),
  )
  .map((fields) => fields.filter((one) => one !== undefined).join(' '));

test('the next time is always later, and the first of all that are', () => {
  const starts = fc.date({ min: new Date('2010-01-01'), max: new Date('2040-01-01'), noInvalidDate: true });
  fc.assert(
    fc.property(expressions, fc.constantFrom(...ZONES), starts, (cron, zone, start) => {
      const after = readCron(cron, zone);
      let last = start.getTime();
      for (let n = 0; n < 20; n += 1) {
        const next = after(last);
        if (next === undefined) return;
        assert.ok(next > last && next % 1_000 === 0);
        const between = last + Math.floor((next - last) / 2);
        assert.equal(after(between), next, `between ${last} and ${next}`);
        last = next;
      }
    }),
    { numRuns: 300 },
  );
});

describe('what is no cron expression is refused in words', () => {
  for (const [cron, says] of [
    ['', /five fields/],
    ['* * * *', /five fields/],
    ['* * * * * * *', /five fields/],
    ['60 * * * *', /minute: 60/],
    ['0 24 * * *', /hour: 24/],
    ['0 0 0 * *', /day: 0/],
    ['0 0 32 * *', /day: 32/],
    ['0 0 * 13 *', /month: 13/],
    ['0 0 * * 8', /dayOfWeek: 8/],
    ['5/5 * * * *', /stepping/],
    ['*/0 * * * *', /stepping/],
    ['*/61 * * * *', /steps/],
    ['30-10 * * * *', /larger/],
    ['a * * * *', /illegal/],
    ['1,,2 * * * *', /empty/],
    ['@reboot', /@hourly, @daily/],
    ['@every 5m', /@hourly, @daily/],
    ['2026-01-01T00:00:00Z', /five fields/],
    ['0 0 * * *\n', /five fields/],
  ] as const) {
    test(JSON.stringify(cron), () => {
      assert.throws(
        () => readCron(cron, 'UTC'),
        (error) => error instanceof CronFault && says.test(error.message) && !/Cron[A-Z]/.test(error.message),
      );
    });
  }
});

describe('what never comes is found out within 50 ms', () => {
  for (const cron of [
    '0 0 30 2 *',
    '0 0 31 2,4,6,9,11 *',
    '* * * 30 2 *',
    '0 0 30 2 +1',
    '0 0 31W 2 *',
    '0 0 1W 2 +0',
  ]) {
    for (const zone of ['UTC', 'Europe/Kyiv', 'America/Nuuk']) {
      test(`${cron} in ${zone}`, () => {
        const after = readCron(cron, zone);
        after(Date.parse('2020-01-01T00:00:00Z'));
        const began = performance.now();
        assert.equal(after(Date.parse('2026-01-01T00:00:00Z')), undefined);
        assert.ok(performance.now() - began < 50, `${performance.now() - began} ms`);
      });
    }
  }

  test('and what comes seldom is found as fast', () => {
    const began = performance.now();
    assert.deepEqual(times('0 0 29 2 +1', 'America/New_York', '2026-01-01T00:00:00Z', 1), ['2044-02-29T05:00']);
    assert.ok(performance.now() - began < 50, `${performance.now() - began} ms`);
  });
});
