import type { TSchema } from 'typebox';
import { isJsonType, JSON_TYPE } from '../core/content-type.js';
import { checkJsonBytes } from '../core/payload.js';
import { formOf, type ObjectForm, type TaggedForm } from '../core/schema.js';
import { invalidField } from '../errors.js';
import type { Codec } from './codec.js';
import type { ProtoField, ProtoMessage, Protos } from './protos.js';

export interface MessageContext {
  readonly protos: Protos;
  /** Compiles one field. */
  field(schema: TSchema, field: ProtoField, where: string): Codec;
}

type Values = Readonly<Record<string, unknown>>;

interface Member extends Codec {
  readonly name: string;
  /** What a field has that is not in the message: an empty list is not sent. */
  readonly absent: unknown;
  /** A list or a map: an empty one is none. */
  readonly isMany: boolean;
}

/** A message for an object, or for one of several of which a `oneof` tells which. */
export function messageCodec(form: ObjectForm | TaggedForm, message: ProtoMessage, context: MessageContext): Codec {
  return form.kind === 'object' ? objectCodec(form, message, context) : taggedCodec(form, message, context);
}

const PAYLOAD = 'payload';
/** In REST bytes are base64, beside JSON that is itself; in proto the payload is bytes whatever they are. */
const PAYLOAD_BYTES = 'payloadBase64';

function objectCodec(form: ObjectForm, message: ProtoMessage, context: MessageContext, tag?: string): Codec {
  const properties = form.properties.filter(([name]) => name !== tag && name !== PAYLOAD_BYTES);
  const isPair = form.properties.some(([name]) => name === PAYLOAD_BYTES);
  const members = properties.map(([name, schema]) => {
    const field = fieldOf(message, name);
    checkPresence(message, { field, schema, required: form.required.has(name) });
    const codec = isPair && name === PAYLOAD ? AS_BYTES : context.field(schema, field, `${message.name}.${name}`);
    return { ...codec, name, absent: absentOf(schema, form.required.has(name)), isMany: field.repeated };
  });
  const unknown = message.fields.find(({ name }) => !members.some((member) => member.name === name));
  if (unknown !== undefined) throw new Error(`${message.name}.${unknown.name} is not in the table`);
  return {
    read: (value, path) => readObject(members, value as Values, { path, isPair }),
    write: (value) => writeObject(members, value as Values, isPair),
  };
}

const AS_BYTES: Codec = { read: (value) => value, write: (value) => value };

function fieldOf(message: ProtoMessage, name: string): ProtoField {
  const field = message.fields.find((each) => each.name === name);
  if (field === undefined) throw new Error(`${message.name} has no field for ${name}`);
  return field;
}

/** What the table makes optional has presence, and what it requires has none; messages and lists are as they are. */
function checkPresence(
  message: ProtoMessage,
  { field, schema, required }: { readonly field: ProtoField; readonly schema: TSchema; readonly required: boolean },
): void {
  const { kind } = formOf(schema);
  if (field.repeated || field.type === 'TYPE_MESSAGE' || field.optional !== required) return;
  throw new Error(
    `${message.name}.${field.name}: ${kind} is ${required ? 'required' : 'optional'} in the table, not in proto`,
  );
}

function absentOf(schema: TSchema, required: boolean): unknown {
  const { kind } = formOf(schema);
  if (!required) return undefined;
  return kind === 'array' ? [] : kind === 'record' ? {} : undefined;
}

function readObject(
  members: readonly Member[],
  message: Values,
  { path, isPair }: { readonly path: string; readonly isPair: boolean },
): Record<string, unknown> {
  const object: Record<string, unknown> = {};
  for (const { name, read, absent, isMany } of members) {
    if (isPair && name === PAYLOAD) continue;
    const value = message[name];
    if (value === undefined || value === null || (isMany && isEmpty(value))) {
      if (absent !== undefined) object[name] = absent;
      continue;
    }
    const converted = read(value, path === '' ? name : `${path}.${name}`);
    if (converted !== undefined) object[name] = converted;
  }
  if (isPair && message[PAYLOAD] !== undefined) readPayload(object, message[PAYLOAD] as Buffer, path);
  return object;
}

function isEmpty(value: unknown): boolean {
  return Object.keys(value as object).length === 0;
}

/** Content that is JSON is text in the service, other content is bytes. */
function readPayload(object: Record<string, unknown>, bytes: Buffer, path: string): void {
  const { contentType = JSON_TYPE } = object;
  if (!isJsonType(contentType as string)) {
    object[PAYLOAD_BYTES] = bytes;
    return;
  }
  const fault = checkJsonBytes(bytes);
  if (fault !== undefined) throw invalidField(path === '' ? PAYLOAD : `${path}.${PAYLOAD}`, fault);
  object[PAYLOAD] = bytes.toString('utf8');
}

function writeObject(members: readonly Member[], object: Values, isPair: boolean): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const { name, write } of members) {
    const value = object[name];
    if (value !== undefined && value !== null) message[name] = write(value);
  }
  if (!isPair) return message;
  const text = object[PAYLOAD] as string | undefined;
  const bytes = text === undefined ? (object[PAYLOAD_BYTES] as Buffer | undefined) : Buffer.from(text);
  if (bytes !== undefined) message[PAYLOAD] = bytes;
  return message;
}

function taggedCodec({ tag, variants }: TaggedForm, message: ProtoMessage, context: MessageContext): Codec {
  const codecs = new Map<string, Codec>();
  for (const [value, schema] of variants) {
    const form = formOf(schema);
    const field = fieldOf(message, String(value));
    if (form.kind !== 'object') throw new Error(`${message.name}.${field.name} is not an object in the table`);
    codecs.set(field.name, objectCodec(form, context.protos.message(field.typeName), context, tag));
  }
  if (codecs.size !== message.fields.length) throw new Error(`${message.name} has fields that are not in the table`);
  return {
    read: (value, path) => {
      for (const [name, codec] of codecs) {
        const given = (value as Values)[name];
        if (given !== undefined) return { [tag]: name, ...(codec.read(given, `${path}.${name}`) as Values) };
      }
      throw invalidField(path, `must have one of ${[...codecs.keys()].join(', ')}`);
    },
    write: (value) => {
      const name = (value as Values)[tag] as string;
      return { [name]: codecs.get(name)!.write(value) };
    },
  };
}
