import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CronExpressionParser } from 'cron-parser';
import { readCron } from '../../src/schedules/cron.js';

/*
 * 500 fires of 50 expressions, against cron-parser, from the same instant. Where its rule for clocks that change is another than ours, the
 * difference is listed: `+` is ours, `-` theirs. It runs a time that does not exist as much later as the clock jumped, where we run it at
 * the jump; it runs hourly ones once in a half hour that is repeated, where ours go by elapsed time.
 */

const ZONES = [
  'Europe/Kyiv',
  'America/New_York',
  'Australia/Lord_Howe',
  'America/Santiago',
  'Europe/Dublin',
  'Africa/Cairo',
  'UTC',
  'Asia/Kathmandu',
];
const EXPRESSIONS = [
  ...[
    '* * * * *',
    '*/5 * * * *',
    '*/7 * * * *',
    '0 * * * *',
    '30 * * * *',
    '15,45 * * * *',
    '0 */2 * * *',
    '0 */6 * * *',
  ],
  ...[
    '5 4 * * *',
    '0 0 * * *',
    '30 2 * * *',
    '30 1 * * *',
    '0 12 * * *',
    '59 23 * * *',
    '0 9-17 * * *',
    '*/15 9-17 * * *',
  ],
  ...[
    '0 0 * * 0',
    '0 0 * * 7',
    '0 9 * * 1-5',
    '30 6 * * MON,WED,FRI',
    '0 22 * * 6',
    '0 0 1 * *',
    '0 0 15 * *',
    '0 0 31 * *',
  ],
  ...[
    '0 0 1 1 *',
    '0 0 29 2 *',
    '0 12 1 */3 *',
    '0 0 1,15 * *',
    '0 0 1-7 * *',
    '10 10 10 10 *',
    '0 0 L * *',
    '0 5 * JAN,JUL *',
  ],
  ...[
    '0 0 13 * 5',
    '0 0 1 * 1',
    '0 4 8-14 * *',
    '*/20 2-4 * * *',
    '0 0 * 2 *',
    '45 23 30 4,6,9,11 *',
    '0 8 * * 1#1',
    '0 17 * * 5#2',
  ],
  ...[
    '* * * * * *',
    '*/10 * * * * *',
    '15 * * * * *',
    '30 */5 * * * *',
    '0 0 * * * *',
    '5 5 5 * * *',
    '0,30 30 3 * * *',
  ],
  ...['0 15 10 * * 1-5', '0 30 8 1 * *', '59 59 23 * * *'],
];
const FIRES = 500;

/** Expressions that are of interest in a zone of their own, or that cron-parser gives up on in the zone whose turn it is. */
const OWN_ZONES: Readonly<Record<string, string>> = {
  '30 2 * * *': 'America/New_York',
  '30 1 * * *': 'Europe/Dublin',
  '0,30 30 3 * * *': 'Europe/Kyiv',
  '30 * * * *': 'Australia/Lord_Howe',
  '15,45 * * * *': 'Australia/Lord_Howe',
  '0 */2 * * *': 'Africa/Cairo',
  '0 12 1 */3 *': 'America/Santiago',
};

const DIFFERENT: Readonly<Record<string, readonly string[]>> = {
  '30 2 * * * in America/New_York': ['+2027-03-14T07:00:00', '-2027-03-14T07:30:00'],
  '30 1 * * * in Europe/Dublin': [
    '+2026-03-29T01:00:00',
    '+2027-03-28T01:00:00',
    '-2026-03-29T01:30:00',
    '-2027-03-28T01:30:00',
  ],
  '0,30 30 3 * * * in Europe/Kyiv': ['+2026-03-29T01:00:00', '-2026-03-29T01:30:00', '-2026-03-29T01:30:30'],
  '30 * * * * in Australia/Lord_Howe': ['+2026-04-04T15:00:00'],
  '15,45 * * * * in Australia/Lord_Howe': ['+2026-04-04T15:15:00'],
  // Theirs comes at a midnight that does not exist.
  '0 */2 * * * in Africa/Cairo': ['-2026-04-23T22:00:00'],
};

test('there are fifty', () => {
  assert.equal(new Set(EXPRESSIONS).size, 50);
});

describe('agrees with a second library, but for what is listed', () => {
  EXPRESSIONS.forEach((cron, n) => {
    const zone = OWN_ZONES[cron] ?? ZONES[n % ZONES.length]!;
    test(`${cron} in ${zone}`, () => {
      const start = Date.parse('2026-03-27T10:11:12Z');
      const theirs = CronExpressionParser.parse(cron, { currentDate: new Date(start), tz: zone });
      const after = readCron(cron, zone);
      const [own, other] = [[] as number[], [] as number[]];
      for (let at = after(start); at !== undefined && own.length < FIRES; at = after(at)) own.push(at);
      // Ours end with the year 3000.
      assert.ok(own.length === FIRES || own.at(-1)! > Date.parse('2990-01-01'));
      while (other.length < own.length) other.push(theirs.next().getTime());
      const until = Math.min(own.at(-1)!, other.at(-1)!);
      const [mine, known] = [new Set(own), new Set(other)];
      const shown = (sign: string) => (at: number) => sign + new Date(at).toISOString().slice(0, 19);
      const differing = [
        ...own.filter((at) => !known.has(at) && at <= until).map(shown('+')),
        ...other.filter((at) => !mine.has(at) && at <= until).map(shown('-')),
      ];
      assert.deepEqual(differing, DIFFERENT[`${cron} in ${zone}`] ?? []);
    });
  });
});
