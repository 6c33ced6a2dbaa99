import type { FieldError } from '../errors.js';
import { under } from './field-path.js';
import { endOfString, endOfValue, skipSpace } from './json-text.js';
import type { Literal } from './schema.js';
import { InvalidItem } from './wire.js';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;

export interface ObjectShape {
  readonly kind: 'object';
  readonly fields: ReadonlyMap<string, Shape>;
  readonly others: Shape;
}

/** What to do with a value of a body, compiled from a schema; undefined: nothing, pass over it. */
export type Shape =
  | { readonly kind: 'json' }
  | { readonly kind: 'convert'; readonly convert: (value: unknown) => Converted }
  | { readonly kind: 'array'; readonly items: Shape; readonly lenient: boolean }
  | { readonly kind: 'tagged'; readonly tag: string; readonly variants: ReadonlyMap<Literal, Shape> }
  | ObjectShape
  | undefined;

/** A converted value, or what is wrong with it, in words that follow the field's name. */
export type Converted = { readonly value: unknown; readonly fault?: undefined } | { readonly fault: string };

/** A place in JSON text that has been parsed, so that it is known to be valid. */
export interface Cursor {
  readonly text: string;
  at: number;
}

type Holder = Record<string | number, unknown>;

const NO_FIELDS: ObjectShape = { kind: 'object', fields: new Map(), others: undefined };

/**
 * Walks the text of an object beside its parsed form and changes the latter in place, as the shape says: the value of a
 * `json` field becomes the very text it had. It descends as deep as the shape, not as the text.
 *
 * @returns the first fault, with its path from this object: a key given twice (compared unescaped), a faulty value
 */
export function scanObject(cursor: Cursor, shape: ObjectShape, target: Holder): FieldError | undefined {
  const { text } = cursor;
  const seen = new Set<string>();
  cursor.at = skipSpace(text, cursor.at + 1);
  while (text.charCodeAt(cursor.at) === QUOTE) {
    const key = readKey(cursor);
    if (seen.has(key)) return under(key, { field: '', message: 'is given more than once' });
    seen.add(key);
    const colon = skipSpace(text, cursor.at);
    cursor.at = skipSpace(text, colon + 1);
    const fault = scanMember(cursor, shape.fields.get(key) ?? shape.others, { holder: target, key });
    if (fault !== undefined) return under(key, fault);
    passComma(cursor);
  }
  cursor.at++;
  return undefined;
}

function readKey(cursor: Cursor): string {
  const start = cursor.at;
  cursor.at = endOfString(cursor.text, start);
  const key = cursor.text.slice(start + 1, cursor.at - 1);
  return key.includes('\\') ? (JSON.parse(`"${key}"`) as string) : key;
}

function passComma(cursor: Cursor): void {
  cursor.at = skipSpace(cursor.text, cursor.at);
  if (cursor.text.charCodeAt(cursor.at) === COMMA) cursor.at = skipSpace(cursor.text, cursor.at + 1);
}

function scanMember(
  cursor: Cursor,
  shape: Shape,
  place: { readonly holder: Holder; readonly key: string | number },
): FieldError | undefined {
  const { text, at } = cursor;
  const { holder, key } = place;
  const opening = text.charCodeAt(at);
  const value = holder[key];
  // Text and value differ in kind only after a key given twice, which is refused when the walk comes to it.
  if (shape?.kind === 'array' && opening === OPEN_ARRAY && Array.isArray(value)) return scanArray(cursor, shape, value);
  if (opening === OPEN_OBJECT && typeof value === 'object' && value !== null) {
    const inner = objectShape(shape, value as Holder);
    if (inner !== undefined) return scanObject(cursor, inner, value as Holder);
  }
  cursor.at = endOfValue(text, at);
  if (shape?.kind === 'json') {
    holder[key] = text.slice(at, cursor.at);
  } else if (shape?.kind === 'convert') {
    const converted = shape.convert(value);
    if (converted.fault !== undefined) return { field: '', message: converted.fault };
    holder[key] = converted.value;
  }
  return undefined;
}

function objectShape(shape: Shape, value: Holder): ObjectShape | undefined {
  if (shape?.kind === 'object') return shape;
  if (shape?.kind !== 'tagged') return undefined;
  const variant = shape.variants.get(value[shape.tag] as Literal);
  return variant?.kind === 'object' ? variant : NO_FIELDS;
}

function scanArray(
  cursor: Cursor,
  shape: { readonly items: Shape; readonly lenient: boolean },
  target: unknown[],
): FieldError | undefined {
  const { text } = cursor;
  cursor.at = skipSpace(text, cursor.at + 1);
  for (let index = 0; text.charCodeAt(cursor.at) !== CLOSE_ARRAY; index++) {
    const start = cursor.at;
    const fault = scanMember(cursor, shape.items, { holder: target as unknown as Holder, key: index });
    if (fault !== undefined) {
      if (!shape.lenient) return under(index, fault);
      target[index] = new InvalidItem(fault.field, fault.message);
      cursor.at = endOfValue(text, start);
    }
    passComma(cursor);
  }
  cursor.at++;
  return undefined;
}
