import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { toWireSchema } from '../../src/core/json-schema.js';
import { Bytes, Duration, JsonText, LenientArray, Timestamp } from '../../src/core/wire.js';

test('marked types are described in their form on the wire', () => {
  const { pattern, ...duration } = toWireSchema(
    Duration({ minimum: 1000, maximum: 43_200_000, default: 30_000, description: 'How long.' }),
  );
  assert.equal(typeof pattern, 'string');
  assert.deepEqual(duration, {
    type: 'string',
    examples: ['30s', '5m', '1h30m'],
    default: '30s',
    description: 'How long. From 1s to 12h.',
  });
  assert.deepEqual(toWireSchema(Timestamp()), { type: 'string', format: 'date-time' });
  assert.deepEqual(toWireSchema(JsonText()), { description: 'Any JSON value, kept to the byte.' });
  assert.deepEqual(toWireSchema(JsonText({ description: 'What to do.' })), { description: 'What to do.' });
  assert.deepEqual(toWireSchema(Bytes()), { type: 'string', contentEncoding: 'base64' });
});

test('our own keywords are put into words', () => {
  const key = Type.String({
    description: 'A key.',
    'x-min-bytes': 1,
    'x-max-bytes': 255,
    'x-no-control': true,
    'x-pattern-hint': 'x',
  });
  assert.deepEqual(toWireSchema(key), { type: 'string', description: 'A key. 1 to 255 bytes. No control characters.' });
  const pair = Type.Object(
    { delay: Type.Optional(Type.Integer()), runAt: Type.Optional(Type.Integer()) },
    { 'x-exclusive': [['delay', 'runAt']] },
  );
  assert.deepEqual(toWireSchema(pair), {
    type: 'object',
    description: 'At most one of `delay`, `runAt`.',
    properties: { delay: { type: 'integer' }, runAt: { type: 'integer' } },
  });
});

test('inputs are closed at every level and answers stay open', () => {
  const schema = Type.Object({ items: LenientArray(Type.Object({ a: Type.String() }), { maxItems: 3 }) });
  const item = { type: 'object', required: ['a'], properties: { a: { type: 'string' } } };
  assert.deepEqual(toWireSchema(schema), {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', maxItems: 3, items: item } },
  });
  assert.deepEqual(toWireSchema(schema, { closed: true }), {
    type: 'object',
    required: ['items'],
    properties: { items: { type: 'array', maxItems: 3, items: { ...item, additionalProperties: false } } },
    additionalProperties: false,
  });
});

test('literals are an enum, records have typed values, and unions of objects are one of them', () => {
  const state = Type.Union([Type.Literal('ready'), Type.Literal('dead')], { description: 'S.' });
  assert.deepEqual(toWireSchema(state), { type: 'string', enum: ['ready', 'dead'], description: 'S.' });
  const record = Type.Record(Type.String(), Type.String({ 'x-max-bytes': 9 }), { maxProperties: 64 });
  assert.deepEqual(toWireSchema(record, { closed: true }), {
    type: 'object',
    maxProperties: 64,
    additionalProperties: { type: 'string', description: 'At most 9 bytes.' },
  });
  const union = Type.Union([Type.Object({ type: Type.Literal('a') }), Type.Object({ type: Type.Literal('b') })]);
  const member = (value: string) => ({
    type: 'object',
    required: ['type'],
    properties: { type: { type: 'string', enum: [value] } },
  });
  assert.deepEqual(toWireSchema(union), { oneOf: [member('a'), member('b')] });
});
