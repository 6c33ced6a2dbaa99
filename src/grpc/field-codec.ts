import type { TSchema } from 'typebox';
import { joinPath } from '../core/field-path.js';
import { checkJsonBytes, checkJsonText, checkUtf8 } from '../core/payload.js';
import { type Form, formOf, type JsonSchema, type ObjectForm, type TaggedForm } from '../core/schema.js';
import { InvalidItem } from '../core/wire.js';
import { invalidField, ServiceError } from '../errors.js';
import type { Codec, CodecContext } from './codec.js';
import { messageCodec } from './message-codec.js';
import type { ProtoField } from './protos.js';
import { DURATION, TIMESTAMP } from './times.js';

/**
 * Compiles how a schema of the operation table and a message become one another.
 *
 * @param message the message's full name
 * @throws Error when the two do not fit, naming the field: a mistake in the contract, found at the start
 */
export function compileMessage(schema: TSchema, message: string, context: CodecContext): Codec {
  const form = formOf(schema);
  if (form.kind !== 'object') throw new Error(`${message} must be an object in the table`);
  return ofMessage(form, message, context);
}

function ofMessage(form: ObjectForm | TaggedForm, message: string, context: CodecContext): Codec {
  const { protos } = context;
  return messageCodec(form, protos.message(message), {
    protos,
    field: (schema, field, where) => codecOf(schema, field, context, where),
  });
}

/**
 * Compiles how a property of the operation table and a field of a message become one another.
 *
 * @throws Error when the two do not fit, naming `where`: a mistake in the contract, found at the start
 */
function codecOf(schema: TSchema, field: ProtoField, context: CodecContext, where: string): Codec {
  const form = formOf(schema);
  if (form.kind === 'array' && (schema as JsonSchema)['x-boxed'] === true) return boxed(schema, field, context, where);
  const isMany = form.kind === 'array' || form.kind === 'record';
  const codec = field.repeated === isMany ? compiled(form, field, context, where) : undefined;
  if (codec !== undefined) return codec;
  throw new Error(`${where} is ${field.type} ${field.typeName} in proto, which is not the table's ${form.kind}`);
}

/** Undefined when the two do not fit. */
function compiled(form: Form, field: ProtoField, context: CodecContext, where: string): Codec | undefined {
  const { type, typeName } = field;
  switch (form.kind) {
    case 'json':
      return type === 'TYPE_MESSAGE' ? jsonObject(field, context) : scalar(form.kind, type);
    case 'duration':
      return typeName === 'google.protobuf.Duration' ? DURATION : undefined;
    case 'timestamp':
      return typeName === 'google.protobuf.Timestamp' ? TIMESTAMP : undefined;
    case 'choice':
      return type === 'TYPE_ENUM' ? choice(form, field, context) : undefined;
    case 'record':
      return context.protos.isMap(field) ? AS_IT_IS : undefined;
    case 'array':
      return list(form, field, context, where);
    case 'object':
    case 'tagged':
      return type === 'TYPE_MESSAGE' ? ofMessage(form, typeName, context) : undefined;
    default:
      return scalar(form.kind, type);
  }
}

const AS_IT_IS: Codec = { read: (value) => value, write: (value) => value };

function scalar(kind: Form['kind'], type: string): Codec | undefined {
  if (SCALARS.get(kind)?.includes(type) !== true) return undefined;
  return kind === 'json' ? JSON_BYTES : AS_IT_IS;
}

const SCALARS: ReadonlyMap<Form['kind'], readonly string[]> = new Map<Form['kind'], readonly string[]>([
  ['string', ['TYPE_STRING']],
  ['boolean', ['TYPE_BOOL']],
  ['integer', ['TYPE_INT32', 'TYPE_INT64']],
  ['number', ['TYPE_DOUBLE']],
  ['bytes', ['TYPE_BYTES']],
  ['json', ['TYPE_BYTES']],
]);

const JSON_BYTES: Codec = {
  read: (value, path) => {
    const fault = checkJsonBytes(value as Buffer);
    if (fault !== undefined) throw invalidField(path, fault);
    return (value as Buffer).toString('utf8');
  },
  write: (value) => Buffer.from(value as string),
};

/** Names of an enum's values begin with the enum's own: `JOB_STATE_READY` is the table's `ready`. */
function choice({ values }: Extract<Form, { kind: 'choice' }>, field: ProtoField, context: CodecContext): Codec {
  const own = field.typeName.split('.').at(-1)!;
  const prefix = `${upperSnake(own)}_`;
  const names = new Map(values.map((value) => [value, prefix + upperSnake(String(value))]));
  const known = context.protos.values(field.typeName);
  for (const name of names.values()) if (!known.includes(name)) throw new Error(`${field.typeName} has no ${name}`);
  context.onEnum(field.typeName, [...names.values()]);
  const back = new Map([...names].map(([value, name]) => [name, value]));
  return {
    read: (value, path) => {
      if (value === `${prefix}UNSPECIFIED` && !field.repeated) return undefined;
      const found = back.get(value as string);
      if (found === undefined) throw invalidField(path, `must be one of ${[...back.keys()].join(', ')}`);
      return found;
    },
    write: (value) => names.get(value as string),
  };
}

function upperSnake(text: string): string {
  return text.replace(/([a-z0-9])([A-Z])/g, '$1_$2').toUpperCase();
}

function list(form: Extract<Form, { kind: 'array' }>, field: ProtoField, context: CodecContext, where: string): Codec {
  const items = codecOf(form.items, { ...field, repeated: false }, context, `${where}[]`);
  const read = form.lenient ? lenient(items.read) : items.read;
  return {
    read: (value, path) => (value as unknown[]).map((item, index) => read(item, path + joinPath(index, ''))),
    write: (value) => (value as unknown[]).map(items.write),
  };
}

/** A faulty item fails alone. */
function lenient(read: Codec['read']): Codec['read'] {
  return (item) => {
    try {
      return read(item, '');
    } catch (error) {
      const fault = error instanceof ServiceError ? error.fields[0] : undefined;
      if (fault === undefined) throw error;
      return new InvalidItem(fault.field, fault.message);
    }
  };
}

/** A list in a message of its own, so that an empty one is told from none. */
function boxed(schema: TSchema, field: ProtoField, context: CodecContext, where: string): Codec {
  const [inner, ...more] = field.type === 'TYPE_MESSAGE' ? context.protos.message(field.typeName).fields : [];
  if (inner === undefined || more.length > 0) throw new Error(`${where} is not a message of one list`);
  const items = list(formOf(schema) as Extract<Form, { kind: 'array' }>, inner, context, where);
  return {
    read: (value, path) => items.read((value as Record<string, unknown>)[inner.name] ?? [], path),
    write: (value) => ({ [inner.name]: items.write(value) }),
  };
}

/** A message whose table form is JSON text, never refused: bytes are JSON where they are, and text where they are not. */
function jsonObject(field: ProtoField, { protos }: CodecContext): Codec {
  const { fields } = protos.message(field.typeName);
  const jsonOf = (value: string | Buffer): string => {
    if (typeof value === 'string') return JSON.stringify(value);
    const text = value.toString('utf8');
    return checkUtf8(value) === undefined && checkJsonText(text) === undefined ? text : JSON.stringify(text);
  };
  return {
    read: (value) => {
      const given = value as Readonly<Record<string, string | Buffer | undefined>>;
      const members = fields.flatMap(({ name }) => {
        const member = given[name];
        return member === undefined ? [] : [`${JSON.stringify(name)}:${jsonOf(member)}`];
      });
      return `{${members.join(',')}}`;
    },
    write: () => {
      throw new Error(`${field.typeName} is only read`);
    },
  };
}
