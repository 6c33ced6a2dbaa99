import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeCursor, encodeCursor } from '../../src/core/page.js';
import { ServiceError } from '../../src/errors.js';

test('a cursor gives its parts back', () => {
  const parts = fc.array(
    fc.oneof(
      fc.maxSafeInteger(),
      fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\0')),
    ),
    {
      maxLength: 4,
    },
  );
  fc.assert(
    fc.property(parts, (given) => {
      const cursor = encodeCursor(given);
      assert.match(cursor, /^[A-Za-z0-9_-]*$/);
      if (cursor.length <= 1024) assert.deepEqual(decodeCursor(cursor, given.length).map(Object), given.map(Object));
    }),
  );
});

test('a cursor that no list has given is refused, and names the field', () => {
  const forged = [
    '[1.5]',
    '[null]',
    '[1e400]',
    '["\\u0000"]',
    '["\\ud800"]',
    '[[1]]',
    '{"0":1,"length":1}',
    '"a"',
    '[1',
    '[]',
    '[1,2]',
  ];
  const texts = forged.map((json) => Buffer.from(json).toString('base64url'));
  for (const text of [
    '',
    '!',
    '====',
    `${encodeCursor([1])}=`,
    'W1',
    `${encodeCursor([1])}\n`,
    'A'.repeat(2000),
    ...texts,
  ]) {
    assert.throws(() => decodeCursor(text, 1), matches, text);
  }
});

function matches(error: unknown): boolean {
  assert.ok(error instanceof ServiceError);
  assert.equal(error.code, 'INVALID_ARGUMENT');
  assert.equal(error.fields[0]?.field, 'cursor');
  return true;
}
