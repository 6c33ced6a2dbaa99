import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TSchema, Type } from 'typebox';
import { compileValidator } from '../../src/core/validate.js';
import { Bytes, Duration, InvalidItem, JsonText, LenientArray, Timestamp } from '../../src/core/wire.js';
import { ServiceError } from '../../src/errors.js';

const DAY = 86_400_000;
const key = Type.Optional(Type.String({ 'x-min-bytes': 1, 'x-max-bytes': 255, 'x-no-control': true }));
const retry = Type.Union([
  Type.Object({ type: Type.Literal('exponential'), factor: Type.Optional(Type.Number({ minimum: 1, maximum: 100 })) }),
  Type.Object({
    type: Type.Literal('fixed'),
    delays: Type.Array(Duration({ minimum: 0, maximum: DAY }), { minItems: 1 }),
  }),
]);
const job = Type.Object(
  {
    queue: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$',
      'x-pattern-hint': '[A-Za-z0-9][A-Za-z0-9._-]{0,79}',
    }),
    kind: Type.Optional(Type.String({ maxLength: 128 })),
    priority: Type.Optional(Type.Integer({ minimum: -1000, maximum: 1000 })),
    delay: Type.Optional(Duration({ minimum: 0, maximum: 366 * DAY })),
    visibilityTimeout: Type.Optional(Duration({ minimum: 1000, maximum: DAY / 2 })),
    runAt: Type.Optional(Timestamp()),
    payload: Type.Optional(JsonText()),
    progress: Type.Optional(JsonText({ 'x-max-bytes': 8 })),
    payloadBase64: Type.Optional(Bytes()),
    idempotencyKey: key,
    headers: Type.Optional(Type.Record(Type.String(), Type.String({ 'x-max-bytes': 10 }), { maxProperties: 2 })),
    retry: Type.Optional(retry),
    state: Type.Optional(Type.Union([Type.Literal('ready'), Type.Literal('leased')])),
    force: Type.Optional(Type.Boolean()),
    id: Type.Optional(Type.String({ format: 'uuid' })),
    sequence: Type.Optional(Type.Integer()),
  },
  { 'x-exclusive': [['delay', 'runAt']] },
);
const check = compileValidator(job);

function refusal(validate: (value: unknown) => void, value: unknown): ServiceError {
  try {
    validate(value);
  } catch (error) {
    assert.ok(error instanceof ServiceError, String(error));
    assert.equal(error.code, 'INVALID_ARGUMENT');
    return error;
  }
  return assert.fail(`${JSON.stringify(value)} is taken`);
}

test('a value within its bounds is taken as it is', () => {
  const value = {
    queue: 'mail',
    kind: '😀'.repeat(128),
    priority: -1000,
    delay: 366 * DAY,
    payload: '"\\ud800\\u0000"',
    payloadBase64: Buffer.from([0]),
    idempotencyKey: 'é'.repeat(127),
    headers: { a: '', constructor: 'x' },
    retry: { type: 'fixed', delays: [0, DAY] },
    state: 'ready',
    force: false,
    id: '0190c5f0-0000-7000-8000-000000000000',
  };
  const copy = structuredClone(value);
  check(value);
  assert.deepEqual(
    { ...value, payloadBase64: [...value.payloadBase64] },
    { ...copy, payloadBase64: [...copy.payloadBase64] },
  );
  check({ queue: 'constructor', runAt: 0, kind: undefined });
});

const REFUSED: [value: Record<string, unknown>, field: string, message: string][] = [
  [{ queue: undefined }, 'queue', 'is required'],
  [{ queue: '' }, 'queue', 'must match [A-Za-z0-9][A-Za-z0-9._-]{0,79}'],
  [{ queue: 'mail\n' }, 'queue', 'must match [A-Za-z0-9][A-Za-z0-9._-]{0,79}'],
  [{ queue: null }, 'queue', 'must be a string'],
  [{ kind: 'a'.repeat(129) }, 'kind', 'must be at most 128 characters'],
  [{ kind: 'a\0' }, 'kind', 'must not hold the character U+0000'],
  [{ kind: '\ud83d' }, 'kind', 'must be valid Unicode, without lone surrogates'],
  [{ kind: null }, 'kind', 'must be a string'],
  [{ priority: 1001 }, 'priority', 'must be at most 1000'],
  [{ priority: -1001 }, 'priority', 'must be at least -1000'],
  [{ priority: 1.5 }, 'priority', 'must be an integer'],
  [{ priority: '5' }, 'priority', 'must be an integer'],
  [{ priority: Infinity }, 'priority', 'must be an integer'],
  [{ sequence: 1e300 }, 'sequence', 'must be at most 9007199254740991'],
  [{ delay: 366 * DAY + 1 }, 'delay', 'must be at most 366d'],
  [{ delay: -1 }, 'delay', 'must be at least 0s'],
  [{ delay: '30s' }, 'delay', 'must be a duration such as "30s", "5m" or "1h30m"'],
  [{ visibilityTimeout: 999 }, 'visibilityTimeout', 'must be at least 1s'],
  [{ visibilityTimeout: DAY }, 'visibilityTimeout', 'must be at most 12h'],
  [{ runAt: 1e18 }, 'runAt', 'must be at most 9999-12-31T23:59:59.999968Z'],
  [{ payload: 5 }, 'payload', 'must be JSON text'],
  [{ progress: '"éééé"' }, 'progress', 'must be at most 8 bytes'],
  [{ payloadBase64: 'YQ==' }, 'payloadBase64', 'must be bytes'],
  [{ idempotencyKey: '' }, 'idempotencyKey', 'must be 1 to 255 bytes'],
  [{ idempotencyKey: 'é'.repeat(128) }, 'idempotencyKey', 'must be 1 to 255 bytes'],
  [{ idempotencyKey: 'a\u0085' }, 'idempotencyKey', 'must not hold control characters'],
  [{ headers: { a: 1 } }, 'headers.a', 'must be a string'],
  [{ headers: { 'x y': 'a'.repeat(11) } }, 'headers."x y"', 'must be at most 10 bytes'],
  [{ headers: { '0': 1 } }, 'headers.0', 'must be a string'],
  [{ headers: { 'a/~b': 1 } }, 'headers."a/~b"', 'must be a string'],
  [{ headers: { 'a\0': '' } }, 'headers', 'has a name that must not hold the character U+0000'],
  [{ headers: { a: '', b: '', c: '' } }, 'headers', 'must have at most 2 entries'],
  [{ headers: [] }, 'headers', 'must be an object'],
  [{ retry: { type: 'x' } }, 'retry.type', 'must be one of exponential, fixed'],
  [{ retry: {} }, 'retry.type', 'is required'],
  [{ retry: { type: null } }, 'retry.type', 'must be one of exponential, fixed'],
  [{ retry: { type: 'exponential', factor: 0 } }, 'retry.factor', 'must be at least 1'],
  [{ retry: { type: 'exponential', delays: [1] } }, 'retry.delays', 'is not a known field'],
  [{ retry: { type: 'fixed' } }, 'retry.delays', 'is required'],
  [{ retry: { type: 'fixed', delays: [] } }, 'retry.delays', 'must have at least 1 item'],
  [{ retry: { type: 'fixed', delays: [0, -1] } }, 'retry.delays[1]', 'must be at least 0s'],
  [{ state: 'done' }, 'state', 'must be one of ready, leased'],
  [{ force: 1 }, 'force', 'must be true or false'],
  [{ id: 'x' }, 'id', 'must be a UUID'],
  [{ foo: 1 }, 'foo', 'is not a known field'],
  [{ ['f'.repeat(100)]: 1 }, `"${'f'.repeat(80)}…"`, 'is not a known field'],
  [JSON.parse('{"__proto__":1}'), '__proto__', 'is not a known field'],
  [{ constructor: 1 }, 'constructor', 'is not a known field'],
  [{ hasOwnProperty: 1 }, 'hasOwnProperty', 'is not a known field'],
];

test('a refusal names the field and the limit', () => {
  for (const [value, field, message] of REFUSED) {
    const error = refusal(check, { queue: 'mail', ...value });
    assert.deepEqual(error.fields, [{ field, message }]);
    assert.equal(error.message, `${field} ${message}`);
  }
});

test('what is no object at all is refused as the body', () => {
  for (const value of [undefined, null, 1, 'x', []])
    assert.equal(refusal(check, value).message, 'body must be an object');
});

test('fields that exclude each other are both named', () => {
  const error = refusal(check, { queue: 'mail', delay: 0, runAt: 0 });
  assert.equal(error.message, 'delay and runAt exclude each other');
  assert.deepEqual(error.fields, [
    { field: 'delay', message: 'excludes runAt' },
    { field: 'runAt', message: 'excludes delay' },
  ]);
  const batch = compileValidator(Type.Object({ jobs: Type.Array(job) }));
  const inner = refusal(batch, { jobs: [{ queue: 'a' }, { queue: 'a', delay: 0, runAt: 0 }] });
  assert.equal(inner.message, 'jobs[1].delay and jobs[1].runAt exclude each other');
});

test('a batch names the item and says how many it takes', () => {
  const batch = compileValidator(Type.Object({ jobs: Type.Array(job, { minItems: 1, maxItems: 2 }) }));
  assert.equal(refusal(batch, { jobs: [{ queue: 'a' }, { queue: '!' }] }).fields[0]?.field, 'jobs[1].queue');
  assert.equal(refusal(batch, { jobs: [{}, {}, {}] }).message, 'jobs must have at most 2 items');
  assert.equal(refusal(batch, { jobs: [] }).message, 'jobs must have at least 1 item');
  assert.equal(refusal(batch, { jobs: [null] }).message, 'jobs[0] must be an object');
});

test('a faulty item of a lenient array is replaced, its neighbours stay, and the bounds of the array hold', () => {
  const item = Type.Object({
    leaseToken: Type.String({ minLength: 1 }),
    delay: Type.Optional(Duration({ minimum: 0, maximum: 1000 })),
  });
  const settle = compileValidator(
    Type.Object({
      settle: Type.Object({ acks: LenientArray(item, { maxItems: 7 }) }),
      worker: Type.Optional(Type.String()),
    }),
  );
  const before = new InvalidItem('delay', 'must be a duration');
  const good = { leaseToken: 'a' };
  const acks = [good, {}, 7, before, { leaseToken: '', foo: 1 }, { leaseToken: 'a', delay: 2000 }, { leaseToken: 'b' }];
  settle({ settle: { acks } });
  assert.deepEqual(acks, [
    { leaseToken: 'a' },
    new InvalidItem('leaseToken', 'is required'),
    new InvalidItem('item', 'must be an object'),
    before,
    new InvalidItem('foo', 'is not a known field'),
    new InvalidItem('delay', 'must be at most 1s'),
    { leaseToken: 'b' },
  ]);
  assert.equal(acks[0], good);
  assert.equal(refusal(settle, { settle: { acks: [...acks, good] } }).message, 'settle.acks must have at most 7 items');
  assert.equal(refusal(settle, { settle: { acks: {} } }).message, 'settle.acks must be an array');
});

test('a schema that the operation table may not use is refused when it is compiled', () => {
  const schemas: TSchema[] = [
    Type.Intersect([Type.Object({}), Type.Object({})]),
    Type.Union([Type.String(), Type.Integer()]),
    Type.String({ format: 'email' }),
    Type.Null(),
  ];
  for (const schema of schemas) assert.throws(() => compileValidator(schema), Error);
});
