import type { TSchema } from 'typebox';
import { formatDuration } from './duration.js';
import { type Form, formOf, type Literal, type ObjectForm, type TaggedForm } from './schema.js';
import { formatTimestamp } from './timestamp.js';

/** Writes a value in the form of the service as JSON text in the form of REST. */
export type Encoder = (value: unknown) => string;

type ScalarKind = Exclude<Form['kind'], 'object' | 'array' | 'record' | 'tagged' | 'choice'>;
type Fields = Readonly<Record<string, unknown>>;

/**
 * Compiles a schema to an encoder that writes the declared fields in the schema's order: durations as `"30s"`, instants
 * in RFC 3339, bytes in base64, JSON text as it is. An optional field that is undefined or null is left out.
 *
 * @returns an encoder that throws TypeError, naming the field, when a required field is missing or a value is not of the
 * field's type: a mistake of the operation, never of its caller
 */
export function compileEncoder(schema: TSchema): Encoder {
  return encoderOf(schema, '');
}

function encoderOf(schema: TSchema, path: string): Encoder {
  const form = formOf(schema);
  switch (form.kind) {
    case 'object':
      return objectEncoder(form, path);
    case 'array':
      return arrayEncoder(encoderOf(form.items, `${path}[]`), path);
    case 'record':
      return recordEncoder(encoderOf(form.values, `${path}.*`), path);
    case 'tagged':
      return taggedEncoder(form, path);
    case 'choice':
      return choiceEncoder(form.values, path);
    default:
      return scalarEncoder(form.kind, path);
  }
}

function scalarEncoder(kind: ScalarKind, path: string): Encoder {
  switch (kind) {
    case 'json':
      return (value) => (typeof value === 'string' ? value : fail(path, 'JSON text', value));
    case 'string':
      return (value) => (typeof value === 'string' ? JSON.stringify(value) : fail(path, 'a string', value));
    case 'timestamp':
      return (value) => (typeof value === 'number' ? `"${formatTimestamp(value)}"` : fail(path, 'microseconds', value));
    case 'duration':
      return (value) => (isNumber(value) ? `"${formatDuration(value)}"` : fail(path, 'milliseconds', value));
    case 'bytes':
      return (value) => (Buffer.isBuffer(value) ? `"${value.toString('base64')}"` : fail(path, 'a Buffer', value));
    case 'integer':
      return (value) => (Number.isInteger(value) ? String(value) : fail(path, 'an integer', value));
    case 'number':
      return (value) => (isNumber(value) ? String(value) : fail(path, 'a number', value));
    case 'boolean':
      return (value) => (typeof value === 'boolean' ? String(value) : fail(path, 'a boolean', value));
    case 'any':
      return (value) => (value === undefined ? fail(path, 'a JSON value', value) : JSON.stringify(value));
  }
}

function choiceEncoder(values: readonly Literal[], path: string): Encoder {
  const texts = new Map<unknown, string>(values.map((value) => [value, JSON.stringify(value)]));
  return (value) => texts.get(value) ?? fail(path, `one of ${values.join(', ')}`, value);
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

function fail(path: string, expected: string, value: unknown): never {
  throw new TypeError(
    `${path === '' ? 'the answer' : path} must be ${expected}, not ${value === null ? 'null' : typeof value}`,
  );
}

function objectEncoder(form: ObjectForm, path: string): Encoder {
  const fields = form.properties.map(([name, schema]) => {
    const own = path === '' ? name : `${path}.${name}`;
    return {
      name,
      own,
      label: `${JSON.stringify(name)}:`,
      encode: encoderOf(schema, own),
      required: form.required.has(name),
    };
  });
  return (value) => {
    if (typeof value !== 'object' || value === null) return fail(path, 'an object', value);
    let text = '{';
    for (const field of fields) {
      const member = (value as Fields)[field.name];
      if (member !== undefined && member !== null) {
        text += (text.length === 1 ? '' : ',') + field.label + field.encode(member);
      } else if (field.required) {
        return fail(field.own, 'given', member);
      }
    }
    return text + '}';
  };
}

function arrayEncoder(encode: Encoder, path: string): Encoder {
  return (value) => {
    if (!Array.isArray(value)) return fail(path, 'an array', value);
    let text = '[';
    for (let index = 0; index < value.length; index++) text += (index === 0 ? '' : ',') + encode(value[index]);
    return text + ']';
  };
}

function recordEncoder(encode: Encoder, path: string): Encoder {
  return (value) => {
    if (typeof value !== 'object' || value === null) return fail(path, 'an object', value);
    const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${encode(member)}`);
    return `{${members.join(',')}}`;
  };
}

function taggedEncoder(form: TaggedForm, path: string): Encoder {
  const encoders = new Map([...form.variants].map(([value, schema]) => [value, encoderOf(schema, path)]));
  return (value) => {
    const tag = typeof value === 'object' && value !== null ? (value as Fields)[form.tag] : undefined;
    const encode = encoders.get(tag as string);
    return encode === undefined ? fail(path, `one with a known ${form.tag}`, value) : encode(value);
  };
}
