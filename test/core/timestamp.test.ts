import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FIRST_TIMESTAMP, formatTimestamp, LAST_TIMESTAMP, parseTimestamp } from '../../src/core/timestamp.js';

const READ: [text: string, written: string][] = [
  ['1970-01-01T00:00:00Z', '1970-01-01T00:00:00.000000Z'],
  ['2031-02-03T04:05:06.7Z', '2031-02-03T04:05:06.700000Z'],
  ['2031-02-03t04:05:06.123456z', '2031-02-03T04:05:06.123456Z'],
  ['2031-02-03T04:05:06.123456999Z', '2031-02-03T04:05:06.123456Z'],
  ['2031-02-03T04:05:06+05:30', '2031-02-02T22:35:06.000000Z'],
  ['2031-02-03T04:05:06-00:00', '2031-02-03T04:05:06.000000Z'],
  ['2031-12-31T23:30:00-01:00', '2032-01-01T00:30:00.000000Z'],
  ['1969-12-31T23:59:59.999999Z', '1969-12-31T23:59:59.999999Z'],
  ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000000Z'],
  ['9999-12-31T23:59:59.999999Z', '9999-12-31T23:59:59.999968Z'],
];

const REFUSED = [
  ...['', '2031-02-03', '2031-02-03T04:05:06', '2031-02-03 04:05:06Z', '2031-02-03T04:05Z', '2031-2-3T04:05:06Z'],
  ...[
    '2031-02-30T00:00:00Z',
    '2023-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2031-13-01T00:00:00Z',
    '2031-00-01T00:00:00Z',
  ],
  ...[
    '2031-01-00T00:00:00Z',
    '2031-01-01T24:00:00Z',
    '2031-01-01T00:60:00Z',
    '2031-01-01T00:00:60Z',
    '2031-01-01T00:00:00.Z',
  ],
  ...[
    '2031-01-01T00:00:00.1234567890Z',
    '2031-01-01T00:00:00+24:00',
    '2031-01-01T00:00:00+01:60',
    '2031-01-01T00:00:00+0100',
  ],
  ...[
    '0000-12-31T00:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '+02031-01-01T00:00:00Z',
    '1700000000',
  ],
];

test('a timestamp is read with its offset, to the microsecond', () => {
  for (const [text, written] of READ) assert.equal(formatTimestamp(parseTimestamp(text)!), written, text);
});

test('what is no timestamp, or no date of the calendar, is refused', () => {
  for (const text of REFUSED) assert.equal(parseTimestamp(text), undefined, text);
});

test('every microsecond of the years 1684 to 2255 survives being written and read', () => {
  const exact = fc.oneof(fc.maxSafeInteger(), fc.integer({ min: -2_000_000, max: 2_000_000 }));
  fc.assert(fc.property(exact, (micros) => parseTimestamp(formatTimestamp(micros)) === micros));
});

test('the day is not carried over from one instant to the next', () => {
  const micros = [1_999_999, 86_399_999_999, 86_400_000_000, -1, 0, 86_400_000_000, 8_999_999_999_999_999, 1_999_999];
  assert.deepEqual(
    micros.map((each) => formatTimestamp(each)),
    micros.map((each) => `${new Date(Math.floor(each / 1000)).toISOString().slice(0, 19)}.${fraction(each)}Z`),
  );
});

function fraction(micros: number): string {
  return String(((micros % 1_000_000) + 1_000_000) % 1_000_000).padStart(6, '0');
}

test('writing refuses what is no instant', () => {
  for (const micros of [0.5, Number.NaN, Infinity, FIRST_TIMESTAMP - 32, LAST_TIMESTAMP + 32]) {
    assert.throws(() => formatTimestamp(micros), RangeError);
  }
});
