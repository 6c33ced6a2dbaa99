import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Type } from 'typebox';
import { compileDecoder, decodeBody } from '../../src/core/decode.js';
import { compileEncoder } from '../../src/core/encode.js';
import { checkJsonBytes, checkJsonText, parseJson } from '../../src/core/payload.js';
import { JsonText, LenientArray } from '../../src/core/wire.js';

const job = Type.Object({ kind: Type.Optional(Type.String()), payload: Type.Optional(JsonText()) });
const decoder = compileDecoder(Type.Object({ ...job.properties, jobs: Type.Optional(LenientArray(job)) }));
const encode = compileEncoder(job);

const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\r', '\t'), maxLength: 3 });
const numbers = fc.constantFrom(...['9007199254740993', '1.0', '1e400', '-0', '1.10', '0', '-1E-7', '1'.repeat(400)]);
const strings = fc.oneof(
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
  fc.constantFrom(
    '""',
    '"\\u0000"',
    '"\\ud800"',
    '"\\\\"',
    '"\\\\\\""',
    '"}],"',
    '"\\/"',
    '"\uffff"',
    '"\u2028"',
    '"payload\\":"',
  ),
);

/** JSON text as no serializer writes it: odd spacing, escapes, huge numbers, keys given twice. */
const { value: jsonText } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.oneof(numbers, strings, fc.constantFrom('true', 'false', 'null')),
    tie('array'),
    tie('object'),
  ),
  array: fc
    .tuple(space, fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }))
    .map(([empty, items]) => `[${empty}${items.map((item) => item.join('')).join(',')}]`),
  object: fc
    .tuple(
      space,
      fc.array(fc.tuple(space, fc.oneof(strings, fc.constant('"a"')), space, tie('value'), space), { maxLength: 4 }),
    )
    .map(
      ([empty, members]) =>
        `{${empty}${members.map(([a, key, b, value, c]) => `${a}${key}${b}:${b}${value}${c}`).join(',')}}`,
    ),
}));

test('a payload is handed through to the byte, whatever JSON it is', () => {
  fc.assert(
    fc.property(jsonText, space, fc.boolean(), (text, gap, escaped) => {
      const key = escaped ? '"pay\\u006coad"' : '"payload"';
      const body = `${gap}{${gap}"kind"${gap}:"k",${key}:${gap}${text}${gap}}${gap}`;
      assert.deepEqual(decodeBody(decoder, Buffer.from(body)), { kind: 'k', payload: text });
    }),
    { numRuns: 500 },
  );
});

test('each item of a list keeps its own payload, to the byte', () => {
  fc.assert(
    fc.property(fc.array(jsonText, { maxLength: 5 }), space, (texts, gap) => {
      const items = texts.map((text) => `{"payload":${gap}${text}${gap}}`).join(`${gap},${gap}`);
      const { jobs } = decodeBody(decoder, Buffer.from(`{"jobs":[${gap}${items}${gap}]}`));
      assert.deepEqual(
        jobs,
        texts.map((payload) => ({ payload })),
      );
    }),
  );
});

test('a payload comes back in an answer as it came in', () => {
  fc.assert(
    fc.property(jsonText, (text) => {
      const body = `{"kind":"k","payload":${text}}`;
      assert.equal(encode(decodeBody(decoder, Buffer.from(body))), body);
    }),
  );
});

test('the payload null is not an absent payload', () => {
  assert.deepEqual(decodeBody(decoder, Buffer.from('{"payload":null}')), { payload: 'null' });
  assert.deepEqual(decodeBody(decoder, Buffer.from('{}')), {});
  assert.equal(encode({ payload: 'null' }), '{"payload":null}');
  assert.equal(encode({}), '{}');
});

test('JSON is judged as JSON.parse judges it, with a position inside the text', () => {
  const texts = fc.oneof(
    jsonText,
    fc.string(),
    fc
      .tuple(
        jsonText,
        fc.nat(),
        fc.string({
          unit: fc.constantFrom(
            '{',
            '}',
            '[',
            ']',
            '"',
            ',',
            ':',
            '\\',
            'u',
            '0',
            '1',
            'e',
            '.',
            '-',
            't',
            'n',
            ' ',
            '\0',
          ),
        }),
      )
      .map(([text, at, noise]) => text.slice(0, at % (text.length + 1)) + noise + text.slice(at % (text.length + 1))),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const fault = checkJsonText(text);
      assert.equal(fault === undefined, parses(text));
      if (fault === undefined) return;
      const position = /position (\d+)$/.exec(fault)?.[1];
      // All that stands before the fault can still become JSON: it is no fault itself.
      if (position === undefined) assert.match(fault, /unexpected end|byte order mark/);
      else assert.match(checkJsonText(text.slice(0, Number(position))) ?? 'unexpected end', /unexpected end$/);
    }),
    { numRuns: 1000 },
  );
});

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

test('the fault of a text that is no JSON is named with its position', () => {
  const faults: [string, string][] = [
    ['{"a":}', 'unexpected "}" at position 5'],
    ['{"a":1,}', 'unexpected "}" at position 7'],
    ['[1 2]', 'unexpected "2" at position 3'],
    ['[1}', 'unexpected "}" at position 2'],
    ['{"a"', 'unexpected end'],
    ['"\u0001"', 'unexpected "\\u0001" at position 1'],
    ['{} x', 'unexpected "x" at position 3'],
    ['01', 'unexpected "1" at position 1'],
    ['', 'unexpected end'],
  ];
  for (const [text, words] of faults) assert.equal(checkJsonText(text), `must be JSON: ${words}`);
});

test('JSON of 512 levels is taken and of 513 refused, brackets in strings not counted', () => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  assert.equal(checkJsonText(nested(512)), undefined);
  assert.equal(checkJsonText(nested(513)), 'must be at most 512 levels deep');
  assert.equal(checkJsonText(`"${'['.repeat(1000)}"`), undefined);
  assert.equal(checkJsonText(`["\\\\","\\"${'{'.repeat(1000)}"]`), undefined);
  assert.equal(checkJsonText(`[${'[],'.repeat(1000)}{}]`), undefined);
});

test('depth bombs are refused before anything recurses over them', () => {
  for (const bomb of ['['.repeat(100_000), '{"a":'.repeat(50_000), `${'['.repeat(100_000)}${']'.repeat(100_000)}`]) {
    assert.deepEqual(parseJson(bomb), { fault: 'must be at most 512 levels deep' });
    assert.equal(checkJsonBytes(Buffer.from(bomb)), 'must be at most 512 levels deep');
    assert.throws(() => decodeBody(decoder, Buffer.from(`{"payload":${bomb}}`)), {
      code: 'INVALID_ARGUMENT',
      message: 'body must be at most 512 levels deep',
    });
  }
});

test('bytes that are not UTF-8, or begin with a byte order mark, are refused and never replaced', () => {
  const bytes = [[0xff], [0xc0, 0x80], [0x22, 0xed, 0xa0, 0x80, 0x22], [0x22, 0xe9, 0x22]];
  for (const each of bytes) assert.equal(checkJsonBytes(Buffer.from(each)), 'must be valid UTF-8');
  assert.equal(checkJsonBytes(Buffer.from('\ufeff{}')), 'must not begin with a byte order mark');
  assert.equal(checkJsonText('\ufeff{}'), 'must not begin with a byte order mark');
  assert.equal(checkJsonBytes(Buffer.from('"\uffff😀"')), undefined);
});

test('large odd bodies are read in linear time', () => {
  const started = performance.now();
  const keys = Array.from({ length: 200_000 }, (_, index) => `"k${index}":0`).join(',');
  for (const value of [
    `"${'\\\\'.repeat(500_000)}"`,
    `"${'\\"'.repeat(500_000)}"`,
    `{${keys}}`,
    `[${'[],'.repeat(300_000)}0]`,
  ]) {
    assert.deepEqual(decodeBody(decoder, Buffer.from(`{"payload":${value}}`)), { payload: value });
  }
  assert.equal(checkJsonText(`["${'\\"'.repeat(500_000)}`), 'must be JSON: unexpected end');
  assert.ok(performance.now() - started < 10_000);
});
