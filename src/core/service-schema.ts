import type { TSchema } from 'typebox';
import { type Form, formOf, type JsonSchema, type ObjectForm } from './schema.js';
import { FIRST_TIMESTAMP, LAST_TIMESTAMP } from './timestamp.js';

/** Keywords of our own in the derived schema; `validate.ts` gives them their meaning. */
export const TEXT = 'stint-text';
export const BYTES = 'stint-bytes';
export const EACH = 'stint-each';
export const NAMES = 'stint-names';
export const EXCLUSIVE = 'stint-exclusive';

/** What a string must keep to beside its length in characters and its pattern. */
export interface TextRule {
  /** False for JSON text, which may hold anything that JSON holds. */
  readonly plain: boolean;
  readonly noControl: boolean;
  readonly minBytes: number;
  readonly maxBytes: number;
}

const UUID = '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$';

/**
 * The JSON Schema, for Ajv, of the form that values have inside the service: durations and timestamps are integers,
 * JSON is text, bytes are Buffers, and objects take no other fields.
 */
export function serviceSchema(schema: TSchema): Record<string, unknown> {
  const json = schema as JsonSchema;
  const form = formOf(schema);
  switch (form.kind) {
    case 'duration':
    case 'timestamp':
    case 'integer':
      return { ...keep(json, NUMBER_KEYWORDS), ...integerBounds(form.kind, json), type: 'integer', form: form.kind };
    case 'number':
    case 'boolean':
      return { ...keep(json, NUMBER_KEYWORDS), type: form.kind };
    case 'json':
      return { type: 'string', form: form.kind, [TEXT]: textRule(json, false) };
    case 'bytes':
      return { [BYTES]: textRule(json, false) };
    case 'string':
      return { ...keep(json, STRING_KEYWORDS), ...formatPattern(json), type: 'string', [TEXT]: textRule(json, true) };
    case 'choice':
      return { enum: form.values };
    case 'array':
      return arraySchema(json, form);
    case 'object':
      return objectSchema(json, form);
    case 'record':
      return recordSchema(json, form);
    case 'tagged':
      return {
        type: 'object',
        discriminator: { propertyName: form.tag },
        required: [form.tag],
        oneOf: [...new Set(form.variants.values())].map(serviceSchema),
        values: [...form.variants.keys()],
      };
    case 'any':
      return {};
  }
}

const NUMBER_KEYWORDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const STRING_KEYWORDS = ['minLength', 'maxLength', 'pattern', 'x-pattern-hint'];
const ARRAY_KEYWORDS = ['minItems', 'maxItems', 'uniqueItems'];
const OBJECT_KEYWORDS = ['minProperties', 'maxProperties'];

function keep(json: JsonSchema, keywords: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(keywords.filter((name) => json[name] !== undefined).map((name) => [name, json[name]]));
}

function integerBounds(kind: 'duration' | 'timestamp' | 'integer', json: JsonSchema): Record<string, unknown> {
  const [lowest, highest] =
    kind === 'timestamp' ? [FIRST_TIMESTAMP, LAST_TIMESTAMP] : [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  return {
    minimum: json.minimum ?? (json.exclusiveMinimum === undefined ? lowest : undefined),
    maximum: json.maximum ?? (json.exclusiveMaximum === undefined ? highest : undefined),
  };
}

function textRule(json: JsonSchema, plain: boolean): TextRule {
  return {
    plain,
    noControl: json['x-no-control'] === true,
    minBytes: (json['x-min-bytes'] as number | undefined) ?? 0,
    maxBytes: (json['x-max-bytes'] as number | undefined) ?? Infinity,
  };
}

function formatPattern(json: JsonSchema): Record<string, unknown> {
  if (json.format === undefined) return {};
  if (json.format === 'uuid') return { pattern: UUID, 'x-pattern-hint': 'a UUID' };
  throw new Error(`no rule for strings of the format ${JSON.stringify(json.format)}`);
}

function arraySchema(json: JsonSchema, form: Extract<Form, { kind: 'array' }>): Record<string, unknown> {
  const items = serviceSchema(form.items);
  return { ...keep(json, ARRAY_KEYWORDS), type: 'array', ...(form.lenient ? { [EACH]: items } : { items }) };
}

function objectSchema(json: JsonSchema, form: ObjectForm): Record<string, unknown> {
  return {
    ...keep(json, OBJECT_KEYWORDS),
    type: 'object',
    properties: Object.fromEntries(form.properties.map(([name, property]) => [name, serviceSchema(property)])),
    required: [...form.required],
    additionalProperties: form.open,
    ...(json['x-exclusive'] === undefined ? {} : { [EXCLUSIVE]: json['x-exclusive'] }),
  };
}

function recordSchema(json: JsonSchema, form: Extract<Form, { kind: 'record' }>): Record<string, unknown> {
  const values = serviceSchema(form.values);
  return {
    ...keep(json, OBJECT_KEYWORDS),
    type: 'object',
    [NAMES]: true,
    ...(form.names === undefined
      ? { additionalProperties: values }
      : { patternProperties: { [form.names]: values }, additionalProperties: false }),
  };
}
