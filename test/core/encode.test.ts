import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Type } from 'typebox';
import { compileDecoder, decodeBody } from '../../src/core/decode.js';
import { compileEncoder } from '../../src/core/encode.js';
import { Bytes, Duration, JsonText, Timestamp } from '../../src/core/wire.js';

const job = Type.Object({
  id: Type.String(),
  state: Type.Union([Type.Literal('ready'), Type.Literal('leased')]),
  payload: Type.Optional(JsonText()),
  payloadBase64: Type.Optional(Bytes()),
  priority: Type.Integer(),
  ratio: Type.Optional(Type.Number()),
  cancelRequested: Type.Boolean(),
  visibilityTimeout: Type.Optional(Duration({ minimum: 0, maximum: 1e9 })),
  enqueuedAt: Timestamp(),
  headers: Type.Optional(Type.Record(Type.String(), Type.String())),
  lastError: Type.Optional(Type.Object({ message: Type.String(), detail: Type.Optional(JsonText()) })),
  retry: Type.Optional(
    Type.Union([
      Type.Object({ type: Type.Literal('exponential'), initial: Duration({ minimum: 0, maximum: 1e9 }) }),
      Type.Object({ type: Type.Literal('fixed'), delays: Type.Array(Duration({ minimum: 0, maximum: 1e9 })) }),
    ]),
  ),
});
const encode = compileEncoder(job);
const least = { id: 'a', state: 'ready', priority: 0, cancelRequested: false, enqueuedAt: 0 };

test('declared fields are written in the order of the schema, each in the form of REST', () => {
  const value = {
    ...least,
    id: 'a"\u2028\ud800',
    undeclared: 1,
    payload: '{"a":1.0,"a":9007199254740993}',
    payloadBase64: Buffer.from('a'),
    ratio: 0.5,
    visibilityTimeout: 1500,
    headers: { b: '1', a: '2' },
    lastError: { message: '', detail: 'null' },
    retry: { type: 'fixed', delays: [1000, 0] },
  };
  assert.equal(
    encode(value),
    '{"id":"a\\"\u2028\\ud800","state":"ready","payload":{"a":1.0,"a":9007199254740993},"payloadBase64":"YQ==","priority":0,' +
      '"ratio":0.5,"cancelRequested":false,"visibilityTimeout":"1.5s","enqueuedAt":"1970-01-01T00:00:00.000000Z",' +
      '"headers":{"b":"1","a":"2"},"lastError":{"message":"","detail":null},"retry":{"type":"fixed","delays":["1s","0s"]}}',
  );
});

test('an absent optional field is left out, whether it is undefined or null, and never written as null', () => {
  const written =
    '{"id":"a","state":"ready","priority":0,"cancelRequested":false,"enqueuedAt":"1970-01-01T00:00:00.000000Z"}';
  assert.equal(encode(least), written);
  assert.equal(encode({ ...least, payload: null, headers: undefined, retry: null, visibilityTimeout: null }), written);
});

test('an answer without a required field, or of another type, is a mistake of ours that names the field', () => {
  const mistakes: [Record<string, unknown>, RegExp][] = [
    [{ id: undefined }, /^id must be given/],
    [{ priority: null }, /^priority must be given/],
    [{ priority: 1.5 }, /^priority must be an integer/],
    [{ priority: '1' }, /^priority must be an integer/],
    [{ ratio: Number.NaN }, /^ratio must be a number/],
    [{ state: 'other' }, /^state must be one of ready, leased/],
    [{ payload: { a: 1 } }, /^payload must be JSON text/],
    [{ lastError: {} }, /^lastError.message must be given/],
    [{ retry: { type: 'other' } }, /^retry must be one with a known type/],
    [{ retry: { type: 'fixed', delays: ['1s'] } }, /^retry.delays\[\] must be milliseconds/],
    [{ enqueuedAt: '0' }, /^enqueuedAt must be microseconds/],
  ];
  for (const [fields, message] of mistakes) {
    assert.throws(() => encode({ ...least, ...fields }), { name: 'TypeError', message });
  }
});

test('an empty object, list and record are written as such', () => {
  const lists = compileEncoder(
    Type.Object({ jobs: Type.Array(job), headers: Type.Record(Type.String(), Type.String()) }),
  );
  assert.equal(lists({ jobs: [], headers: {} }), '{"jobs":[],"headers":{}}');
  assert.equal(compileEncoder(Type.Object({}))({}), '{}');
});

test('what is encoded decodes to the same value', () => {
  const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
  const milliseconds = fc.nat();
  const text = fc.string({ unit: 'binary' });
  const values = fc.record({
    id: text,
    state: fc.constantFrom('ready', 'leased'),
    payload: optional(fc.json()),
    payloadBase64: optional(fc.uint8Array().map((bytes) => Buffer.from(bytes))),
    priority: fc.maxSafeInteger(),
    ratio: optional(fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)),
    cancelRequested: fc.boolean(),
    visibilityTimeout: optional(milliseconds),
    enqueuedAt: fc.maxSafeInteger(),
    headers: optional(fc.array(fc.tuple(text, text)).map((pairs) => Object.fromEntries(pairs))),
    retry: optional(
      fc.oneof(
        fc.record({ type: fc.constant('exponential'), initial: milliseconds }),
        fc.record({ type: fc.constant('fixed'), delays: fc.array(milliseconds) }),
      ),
    ),
  });
  const decoder = compileDecoder(job);
  fc.assert(
    fc.property(values, (value) => {
      const given = Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined));
      assert.deepEqual(plain(decodeBody(decoder, Buffer.from(encode(value)))), plain(given));
    }),
  );
});

function plain(value: Record<string, unknown>): unknown {
  return JSON.parse(JSON.stringify(value));
}
