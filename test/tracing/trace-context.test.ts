import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readTraceHeaders, readTraceparent, writeTraceparent } from '../../src/observability/trace-context.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const VALID = `00-${TRACE}-${SPAN}-01`;

test('a traceparent of version 00 is read and written to the letter', () => {
  assert.deepEqual(readTraceparent(VALID), { traceId: TRACE, spanId: SPAN, traceFlags: 1 });
  const hexadecimal = (length: number) =>
    fc.string({ unit: fc.constantFrom(...Array.from('0123456789abcdef')), minLength: length, maxLength: length });
  fc.assert(
    fc.property(hexadecimal(32), hexadecimal(16), hexadecimal(2), (trace, span, flags) => {
      const text = `00-${trace}-${span}-${flags}`;
      const read = readTraceparent(text);
      if (/^0+$/.test(trace) || /^0+$/.test(span)) assert.equal(read, undefined);
      else assert.equal(writeTraceparent(read!), text);
    }),
  );
});

test('a traceparent that W3C Trace Context does not allow is none', () => {
  const wrong = [
    undefined,
    '',
    'nonsense',
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE}-${SPAN}-01-`,
    `00-${TRACE}-${SPAN}-01-more`,
    `ff-${TRACE}-${SPAN}-01`,
    `0-${TRACE}-${SPAN}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.slice(1)}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-0x`,
    ` ${VALID}`,
    `${VALID}\n`,
    `${VALID}, ${VALID}`,
  ];
  for (const text of wrong) assert.equal(readTraceparent(text), undefined, JSON.stringify(text));
});

test('of a later version what is known of it is passed on as version 00', () => {
  for (const text of [`01-${TRACE}-${SPAN}-03`, `cc-${TRACE}-${SPAN}-ff-what-the-future-will-be-like`]) {
    assert.deepEqual(readTraceHeaders(text, undefined), { traceparent: VALID, tracestate: undefined });
  }
  assert.equal(readTraceparent(`01-${TRACE}-${SPAN}-01.x`), undefined);
});

const stateOf = (text: string): string | undefined => readTraceHeaders(VALID, text)!.tracestate;

test('a tracestate goes with a valid traceparent alone', () => {
  assert.equal(readTraceHeaders('nonsense', 'a=1'), undefined);
  assert.equal(
    stateOf('rojo=00f067aa0ba902b7, congo=t61rcWkgMzE,tenant@vendor=x y'),
    'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE,tenant@vendor=x y',
  );
  assert.equal(stateOf('a=1,, ,b=2'), 'a=1,b=2');
});

test('a tracestate that is not well formed is dropped, and its traceparent kept', () => {
  const wrong = [
    '',
    ',',
    'a',
    'A=1',
    'a=',
    '=1',
    'a=1=2',
    'a=\u00e9',
    'a=1;b\u0000=2',
    `${'k'.repeat(257)}=1`,
    `a=${'v'.repeat(257)}`,
  ];
  const many = Array.from({ length: 33 }, (_, n) => `k${n}=1`).join(',');
  for (const text of [...wrong, many]) {
    assert.deepEqual(readTraceHeaders(VALID, text), { traceparent: VALID, tracestate: undefined }, text);
  }
});

test('of a tracestate no more than 512 characters are passed on, in whole members: long ones go first, then the last', () => {
  const long = `long=${'x'.repeat(200)}`;
  const short = Array.from({ length: 10 }, (_, n) => `k${n}=${'y'.repeat(47)}`);
  assert.equal(stateOf([long, ...short.slice(0, 9)].join(',')), short.slice(0, 9).join(','));
  assert.equal(
    stateOf(short.join(',')),
    short.slice(0, 10).join(',').length <= 512 ? short.join(',') : short.slice(0, 9).join(','),
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 8_192 }), (text) => {
      const kept = stateOf(text);
      assert.ok(kept === undefined || (kept.length <= 512 && kept.length > 0));
    }),
  );
  const hostile = `a=${'x'.repeat(8_000)}`;
  assert.equal(stateOf(hostile), undefined);
});
