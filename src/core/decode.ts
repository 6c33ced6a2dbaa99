import type { TSchema } from 'typebox';
import { invalidField } from '../errors.js';
import { type Converted, type ObjectShape, scanObject, type Shape } from './body-scan.js';
import { DURATION_HINT, parseDuration } from './duration.js';
import { skipSpace } from './json-text.js';
import { checkJsonText, checkUtf8, parseJson } from './payload.js';
import { type Form, formOf } from './schema.js';
import { parseTimestamp, TIMESTAMP_HINT } from './timestamp.js';

/** How to bring one operation's input from its form in REST into its form in the service. */
export interface Decoder {
  readonly body: ObjectShape;
  readonly strings: ReadonlyMap<string, StringReader>;
}

type StringReader = (given: string | readonly string[]) => Converted;

/** Compiles a schema of an object. Unknown fields and bounds are the validator's matter, not the decoder's. */
export function compileDecoder(schema: TSchema): Decoder {
  const form = formOf(schema);
  const body = shapeOf(form);
  if (form.kind !== 'object' || body?.kind !== 'object') throw new Error('the input of an operation must be an object');
  const strings = new Map(form.properties.map(([name, property]) => [name, stringReader(formOf(property))]));
  return { body, strings };
}

/**
 * Reads a JSON body; an empty one is `{}`. Marked fields are converted: durations to milliseconds, timestamps to
 * microseconds, base64 to a Buffer, and JSON values to their own text, to the byte. A faulty item of a lenient array
 * becomes an `InvalidItem`.
 *
 * @throws ServiceError INVALID_ARGUMENT about `body` when it is not UTF-8, not a JSON object or too deep; about the field
 * when it is given twice or a marked field has another form
 */
export function decodeBody(decoder: Decoder, bytes: Buffer): Record<string, unknown> {
  const encoding = checkUtf8(bytes);
  if (encoding !== undefined) throw invalidField('body', encoding);
  const text = bytes.toString('utf8');
  const start = skipSpace(text, 0);
  if (start === text.length) return {};
  const parsed = parseJson(text);
  if (parsed.fault !== undefined) throw invalidField('body', parsed.fault);
  if (text[start] !== '{') throw invalidField('body', 'must be a JSON object');
  const body = parsed.value as Record<string, unknown>;
  const fault = scanObject({ text, at: start }, decoder.body, body);
  if (fault !== undefined) throw invalidField(fault.field, fault.message);
  return body;
}

/**
 * Reads path and query parameters by their types. Lists are given by repetition, by commas, or both. Names that the
 * schema does not know stay as they are, for the validator to refuse.
 *
 * @throws ServiceError INVALID_ARGUMENT about the parameter that has another form or is given more than once
 */
export function decodeStrings(
  decoder: Decoder,
  values: Readonly<Record<string, string | readonly string[]>>,
): Record<string, unknown> {
  const entries = Object.entries(values).map(([name, given]): [string, unknown] => {
    const reader = decoder.strings.get(name);
    if (reader === undefined) return [name, given];
    const read = reader(given);
    if (read.fault !== undefined) throw invalidField(name, read.fault);
    return [name, read.value];
  });
  return Object.fromEntries(entries);
}

function shapeOf(form: Form): Shape {
  switch (form.kind) {
    case 'json':
      return { kind: 'json' };
    case 'duration':
      return { kind: 'convert', convert: (value) => fromString(value, DURATION_HINT, parseDuration) };
    case 'timestamp':
      return { kind: 'convert', convert: (value) => fromString(value, TIMESTAMP_HINT, parseTimestamp) };
    case 'bytes':
      return { kind: 'convert', convert: (value) => fromString(value, BASE64_HINT, parseBase64) };
    case 'array': {
      const items = shapeOf(formOf(form.items));
      return items === undefined && !form.lenient ? undefined : { kind: 'array', items, lenient: form.lenient };
    }
    case 'object':
      return {
        kind: 'object',
        fields: new Map(form.properties.map(([name, property]) => [name, shapeOf(formOf(property))])),
        others: undefined,
      };
    case 'record':
      return { kind: 'object', fields: new Map(), others: shapeOf(formOf(form.values)) };
    case 'tagged':
      return {
        kind: 'tagged',
        tag: form.tag,
        variants: new Map([...form.variants].map(([value, variant]) => [value, shapeOf(formOf(variant))])),
      };
    default:
      return undefined;
  }
}

const BASE64_HINT = 'must be base64';

function fromString(value: unknown, hint: string, parse: (text: string) => unknown): Converted {
  const parsed = typeof value === 'string' ? parse(value) : undefined;
  return parsed === undefined ? { fault: hint } : { value: parsed };
}

// Buffer.from passes over what is not base64, so only what it writes back in the same way was base64.
function parseBase64(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64');
  const written = bytes.toString('base64');
  return text === written || text === written.replace(/=+$/, '') ? bytes : undefined;
}

function stringReader(form: Form): StringReader {
  if (form.kind !== 'array') {
    return (given) => (typeof given === 'string' ? readString(form, given) : { fault: 'is given more than once' });
  }
  const items = formOf(form.items);
  return (given) => {
    const values: unknown[] = [];
    const texts = (typeof given === 'string' ? [given] : given).filter((text) => text !== '');
    for (const text of texts.flatMap((each) => each.split(','))) {
      const read = readString(items, text);
      if (read.fault !== undefined) return read;
      values.push(read.value);
    }
    return { value: values };
  };
}

function readString(form: Form, text: string): Converted {
  switch (form.kind) {
    case 'integer':
      return /^-?\d{1,300}$/.test(text) ? { value: Number(text) } : { fault: 'must be an integer' };
    case 'number':
      return /^-?\d{1,300}(\.\d{1,300})?([eE][+-]?\d{1,3})?$/.test(text)
        ? { value: Number(text) }
        : { fault: 'must be a number' };
    case 'boolean':
      return text === 'true' || text === 'false' ? { value: text === 'true' } : { fault: 'must be true or false' };
    case 'json': {
      const fault = checkJsonText(text);
      return fault === undefined ? { value: text } : { fault };
    }
    case 'duration':
    case 'timestamp':
    case 'bytes': {
      const shape = shapeOf(form);
      return shape?.kind === 'convert' ? shape.convert(text) : { value: text };
    }
    default:
      return { value: text };
  }
}
