import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Type } from 'typebox';
import { compileDecoder, decodeBody, decodeStrings } from '../../src/core/decode.js';
import { Bytes, Duration, InvalidItem, JsonText, LenientArray, Timestamp } from '../../src/core/wire.js';
import { ServiceError } from '../../src/errors.js';

const delay = Type.Optional(Duration({ minimum: 0, maximum: 1000 }));
const retry = Type.Union([
  Type.Object({ type: Type.Literal('exponential'), initial: delay }),
  Type.Object({ type: Type.Literal('fixed'), delays: Type.Array(Duration({ minimum: 0, maximum: 1000 })) }),
]);
const job = Type.Object({
  queue: Type.Optional(Type.String()),
  delay,
  runAt: Type.Optional(Timestamp()),
  payload: Type.Optional(JsonText()),
  payloadBase64: Type.Optional(Bytes()),
  headers: Type.Optional(Type.Record(Type.String(), Type.String())),
  retry: Type.Optional(retry),
});
const input = Type.Object({
  ...job.properties,
  jobs: Type.Optional(Type.Array(job)),
  items: Type.Optional(LenientArray(job)),
});
const decoder = compileDecoder(input);

function decode(text: string | Buffer): Record<string, unknown> {
  return decodeBody(decoder, Buffer.from(text as string));
}

function refuses(text: string | Buffer, field: string, message: string | RegExp): void {
  assert.throws(
    () => decode(text),
    (error) => {
      assert.ok(error instanceof ServiceError);
      assert.equal(error.code, 'INVALID_ARGUMENT');
      assert.equal(error.fields[0]?.field, field);
      if (typeof message === 'string') assert.equal(error.message, `${field} ${message}`);
      else assert.match(error.message, message);
      return true;
    },
  );
}

test('a body that is empty or all white space is an empty object', () => {
  for (const text of ['', ' ', '\r\n\t ', '{}', ' {} ']) assert.deepEqual(decode(text), {});
});

test('marked fields come in the form of the service', () => {
  const body = {
    delay: '1.5s',
    runAt: '1970-01-01T00:00:01Z',
    payloadBase64: 'AP8=',
    retry: { type: 'fixed', delays: ['1s', '5m'] },
    jobs: [{ retry: { type: 'exponential', initial: '10s' } }],
  };
  assert.deepEqual(decode(JSON.stringify(body)), {
    delay: 1500,
    runAt: 1_000_000,
    payloadBase64: Buffer.from([0, 255]),
    retry: { type: 'fixed', delays: [1000, 300_000] },
    jobs: [{ retry: { type: 'exponential', initial: 10_000 } }],
  });
});

test('a body that is no JSON object in UTF-8 is refused as the body', () => {
  for (const text of ['null', '[]', '"a"', '1', ' true']) refuses(text, 'body', 'must be a JSON object');
  refuses('{"a":}', 'body', 'must be JSON: unexpected "}" at position 5');
  refuses('\u00a0', 'body', /must be JSON/);
  refuses('\ufeff{}', 'body', 'must not begin with a byte order mark');
  refuses('\ufeff', 'body', 'must not begin with a byte order mark');
  refuses(Buffer.from([0x7b, 0xff, 0x7d]), 'body', 'must be valid UTF-8');
});

test('a marked field of another form is refused by its path, null like any other', () => {
  const hint = 'must be a duration such as "30s", "5m" or "1h30m"';
  for (const value of ['null', '30', '"30"', '{}', '["30s"]', 'true']) refuses(`{"delay":${value}}`, 'delay', hint);
  refuses('{"jobs":[{},{"delay":"x"}]}', 'jobs[1].delay', hint);
  refuses('{"retry":{"type":"fixed","delays":["1s","2"]}}', 'retry.delays[1]', hint);
  refuses('{"runAt":"tomorrow"}', 'runAt', /RFC 3339/);
  refuses('{"runAt":1700000000}', 'runAt', /RFC 3339/);
});

test('a key given twice is refused at every level of the schema, compared unescaped', () => {
  refuses('{"delay":"1s","delay":"1s"}', 'delay', 'is given more than once');
  refuses('{"payload":1,"pay\\u006coad":2}', 'payload', 'is given more than once');
  refuses('{"foo":1,"foo":2}', 'foo', 'is given more than once');
  refuses('{"jobs":[{},{"queue":"a","queue":"b"}]}', 'jobs[1].queue', 'is given more than once');
  refuses('{"headers":{"a":"1","a":"2"}}', 'headers.a', 'is given more than once');
  refuses('{"retry":{"type":"fixed","type":"fixed"}}', 'retry.type', 'is given more than once');
  refuses('{"retry":{"type":"other","a":1,"a":1}}', 'retry.a', 'is given more than once');
  refuses('{"jobs":[{"delay":"1s"}],"jobs":7}', 'jobs', 'is given more than once');
  refuses('{"jobs":{"delay":1},"jobs":[{"delay":"1s"}]}', 'jobs', 'is given more than once');
  assert.deepEqual(decode('{"payload":{"a":1,"a":2}}'), { payload: '{"a":1,"a":2}' });
});

test('base64 is taken with and without padding, and nothing else is', () => {
  for (const [text, bytes] of [
    ['', ''],
    ['YQ==', 'a'],
    ['YQ', 'a'],
    ['YWI=', 'ab'],
    ['YWI', 'ab'],
    ['YWJj', 'abc'],
  ]) {
    assert.deepEqual(decode(`{"payloadBase64":"${text}"}`), { payloadBase64: Buffer.from(bytes!) });
  }
  for (const text of ['Y', 'YQ=', 'YQ===', 'YR==', 'YQ==YQ==', 'Y Q', '-_-_', 'YQ\\n', '=', '====', '%']) {
    refuses(`{"payloadBase64":"${text}"}`, 'payloadBase64', 'must be base64');
  }
});

test('a faulty item of a lenient array fails alone, in its place', () => {
  const { items } = decode(
    '{"items":[{"delay":"1s"},{"delay":"x","payload":[{}]},{"queue":"a","queue":"b"},7,{"payload":[1]}]}',
  );
  assert.deepEqual(items, [
    { delay: 1000 },
    new InvalidItem('delay', 'must be a duration such as "30s", "5m" or "1h30m"'),
    new InvalidItem('queue', 'is given more than once'),
    7,
    { payload: '[1]' },
  ]);
});

test('the names of Object.prototype are fields like others, and change nothing', () => {
  const names = ['__proto__', 'constructor', 'prototype', 'hasOwnProperty', 'toString'];
  for (const name of names) {
    const body = decode(`{"${name}":{"delay":"x"},"payload":{"${name}":1},"headers":{"${name}":"h"}}`);
    assert.deepEqual(Object.keys(body), [name, 'payload', 'headers']);
    assert.equal(body.payload, `{"${name}":1}`);
    assert.deepEqual(Object.entries(body.headers as object), [[name, 'h']]);
    assert.equal(Object.getPrototypeOf(body), Object.prototype);
    assert.ok(Object.hasOwn(decodeStrings(decoder, JSON.parse(`{"${name}":"x"}`)), name));
  }
  assert.equal(({} as Record<string, unknown>).delay, undefined);
});

test('parameters are read by their types', () => {
  const list = compileDecoder(
    Type.Object({
      limit: Type.Integer(),
      ratio: Type.Number(),
      force: Type.Boolean(),
      wait: Duration({ minimum: 0, maximum: 1 }),
      olderThan: Timestamp(),
      state: Type.Array(Type.Union([Type.Literal('ready'), Type.Literal('dead')])),
      kind: Type.String(),
    }),
  );
  const given = {
    limit: '-10',
    ratio: '0.5e1',
    force: 'false',
    wait: '30s',
    olderThan: '1970-01-01T00:00:01Z',
    state: ['ready,dead', 'ready'],
    kind: 'a,b',
    other: ['x', 'y'],
  };
  assert.deepEqual(decodeStrings(list, given), {
    limit: -10,
    ratio: 5,
    force: false,
    wait: 30_000,
    olderThan: 1_000_000,
    state: ['ready', 'dead', 'ready'],
    kind: 'a,b',
    other: ['x', 'y'],
  });
  assert.deepEqual(decodeStrings(list, { state: '' }), { state: [] });

  const refused: [name: string, value: string | string[], message: RegExp][] = [
    ...['', '1.0', '1e3', '0x10', ' 1', '+1', '१'].map((text): [string, string, RegExp] => [
      'limit',
      text,
      /an integer/,
    ]),
    ['ratio', 'NaN', /a number/],
    ['ratio', 'Infinity', /a number/],
    ['force', '', /true or false/],
    ['force', 'TRUE', /true or false/],
    ['wait', '30', /such as "30s"/],
    ['olderThan', 'now', /RFC 3339/],
    ['kind', ['a', 'b'], /given more than once/],
    ['limit', ['1', '2'], /given more than once/],
  ];
  for (const [name, value, message] of refused) {
    assert.throws(
      () => decodeStrings(list, { [name]: value }),
      (error) => {
        assert.ok(error instanceof ServiceError);
        assert.equal(error.fields[0]?.field, name);
        assert.match(error.message, message);
        return true;
      },
    );
  }
});

test('whatever the bytes, the decoder answers or refuses, and never breaks', () => {
  const words = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    '"delay"',
    '"30s"',
    '"jobs"',
    '"items"',
    '"payload"',
    '"retry"',
    '"type"',
    '"fixed"',
  ];
  const noise = fc
    .array(fc.constantFrom(...words, 'null', '1', ' ', '__proto__'), { maxLength: 40 })
    .map((parts) => Buffer.from(parts.join('')));
  const shaped = fc
    .dictionary(fc.constantFrom('delay', 'jobs', 'items', 'payload', 'retry', 'headers', 'x'), fc.jsonValue())
    .map((body) => Buffer.from(JSON.stringify(body)));
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((each) => Buffer.from(each)),
    noise,
    shaped,
  );
  fc.assert(
    fc.property(bytes, (body) => {
      try {
        assert.equal(typeof decode(body), 'object');
      } catch (error) {
        assert.ok(error instanceof ServiceError, String(error));
        assert.equal(error.code, 'INVALID_ARGUMENT');
      }
    }),
    { numRuns: 2000 },
  );
});
