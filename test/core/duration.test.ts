import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DURATION_PATTERN, durationInWords, formatDuration, parseDuration } from '../../src/core/duration.js';

const READ: [text: string, milliseconds: number][] = [
  ['0s', 0],
  ['30s', 30_000],
  ['1.5s', 1500],
  ['1.005s', 1005],
  ['0.250000s', 250],
  ['500ms', 500],
  ['5m', 300_000],
  ['5m500ms', 300_500],
  ['1h30m', 5_400_000],
  ['1.5h30m', 7_200_000],
  ['7d', 604_800_000],
  ['604800s', 604_800_000],
  ['1d2h3m4s5ms', 93_784_005],
  ['99999999999999999999d', Number.MAX_SAFE_INTEGER],
];

const REFUSED = [
  ...[
    '',
    ' ',
    '30',
    's',
    '30S',
    '-30s',
    '+30s',
    ' 30s',
    '30s ',
    '30 s',
    '30s30s',
    '30m1h',
    '1ms1s',
    '.5s',
    '5.s',
    '1,5s',
  ],
  ...['1e3s', '0.0001s', '0.5ms', 'PT30S', '1w', 'NaNs', '٣s', '1'.repeat(70) + 's', '30s\n', '\u000030s'],
];

test('a duration is read in milliseconds', () => {
  for (const [text, milliseconds] of READ) assert.equal(parseDuration(text), milliseconds, text);
});

test('what is no duration, or no whole number of milliseconds, is refused', () => {
  for (const text of REFUSED) assert.equal(parseDuration(text), undefined, JSON.stringify(text));
});

test('the published pattern takes what the reader takes', () => {
  const pattern = new RegExp(DURATION_PATTERN, 'u');
  for (const [text] of READ) assert.match(text, pattern);
  for (const text of ['', '30', '30S', '-30s', '30s30s', '30m1h', '.5s']) assert.doesNotMatch(text, pattern);
});

test('a duration is written in seconds', () => {
  assert.deepEqual([0, 1, 250, 1500, 30_000, 604_800_000].map(formatDuration), [
    ...['0s', '0.001s', '0.25s', '1.5s', '30s', '604800s'],
  ]);
});

test('every duration survives being written and read', () => {
  const milliseconds = fc.oneof(fc.nat(), fc.integer({ min: 0, max: 1e15 }));
  fc.assert(fc.property(milliseconds, (value) => parseDuration(formatDuration(value)) === value));
  fc.assert(fc.property(milliseconds, (value) => parseDuration(durationInWords(value)) === value));
});

test('limits are said in the largest unit that leaves a whole number', () => {
  const words = [0, 1, 90_000, 60_000, 43_200_000, 366 * 86_400_000].map(durationInWords);
  assert.deepEqual(words, ['0s', '1ms', '90s', '1m', '12h', '366d']);
});
