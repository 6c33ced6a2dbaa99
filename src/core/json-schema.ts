import type { TSchema } from 'typebox';
import { DURATION_PATTERN, durationInWords, formatDuration } from './duration.js';
import { formOf, type JsonSchema } from './schema.js';
import { LENIENT, type WireKind } from './wire.js';

export interface WireSchemaOptions {
  /** True for inputs: objects take no fields but those named. Answers may gain fields, so theirs stay open. */
  readonly closed?: boolean;
}

/** The JSON Schema 2020-12, for the OpenAPI document, of the form that values have in REST. */
export function toWireSchema(schema: TSchema, options: WireSchemaOptions = {}): Record<string, unknown> {
  const json = schema as JsonSchema;
  const form = formOf(schema);
  switch (form.kind) {
    case 'duration':
    case 'timestamp':
    case 'json':
    case 'bytes':
      return markedSchema(json, form.kind);
    case 'string':
      return described(json, textLimits(json));
    case 'choice': {
      const [first] = form.values;
      return { ...without(described(json, []), ['anyOf', 'const', 'enum']), type: typeof first, enum: form.values };
    }
    case 'array':
      return { ...described(json, []), items: toWireSchema(form.items, options) };
    case 'tagged': {
      const members = [...new Set(form.variants.values())].map((member) => toWireSchema(member, options));
      return { ...without(described(json, []), ['anyOf']), oneOf: members };
    }
    case 'object':
      return {
        ...described(json, exclusions(json)),
        properties: Object.fromEntries(form.properties.map(([name, own]) => [name, toWireSchema(own, options)])),
        ...(options.closed === true && !form.open ? { additionalProperties: false } : {}),
      };
    case 'record': {
      const names = form.names === undefined ? {} : { propertyNames: { pattern: form.names } };
      const rest = without(described(json, []), ['patternProperties', 'properties']);
      return { ...rest, ...names, additionalProperties: toWireSchema(form.values, options) };
    }
    default:
      return described(json, []);
  }
}

function markedSchema(json: JsonSchema, kind: WireKind): Record<string, unknown> {
  const rest = without(described(json, kind === 'duration' ? durationLimits(json) : textLimits(json)), [
    'type',
    'minimum',
    'maximum',
  ]);
  switch (kind) {
    case 'duration':
      return {
        type: 'string',
        pattern: DURATION_PATTERN,
        examples: ['30s', '5m', '1h30m'],
        ...rest,
        ...(typeof json.default === 'number' ? { default: formatDuration(json.default) } : {}),
      };
    case 'timestamp':
      return { type: 'string', format: 'date-time', ...rest };
    case 'json':
      return { description: 'Any JSON value, kept to the byte.', ...rest };
    case 'bytes':
      return { type: 'string', contentEncoding: 'base64', ...rest };
  }
}

/** The schema's own keywords without ours (`x-…`), its description continued by limits that JSON Schema cannot say. */
function described(json: JsonSchema, limits: readonly string[]): Record<string, unknown> {
  const own = Object.entries(json).filter(([name]) => !name.startsWith('x-') && name !== LENIENT);
  const description = [json.description, ...limits].filter((sentence) => sentence !== undefined).join(' ');
  return { ...Object.fromEntries(own), ...(description === '' ? {} : { description }) };
}

function without(schema: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name)));
}

function durationLimits(json: JsonSchema): string[] {
  const { minimum, maximum } = json as { minimum?: number; maximum?: number };
  if (minimum === undefined || maximum === undefined) return [];
  return [`From ${durationInWords(minimum)} to ${durationInWords(maximum)}.`];
}

function textLimits(json: JsonSchema): string[] {
  const least = json['x-min-bytes'] as number | undefined;
  const most = json['x-max-bytes'] as number | undefined;
  const limits: string[] = [];
  if (most !== undefined) limits.push(least === undefined ? `At most ${most} bytes.` : `${least} to ${most} bytes.`);
  if (json['x-no-control'] === true) limits.push('No control characters.');
  return limits;
}

function exclusions(json: JsonSchema): string[] {
  const groups = (json['x-exclusive'] ?? []) as readonly (readonly string[])[];
  return groups.map((group) => `At most one of ${group.map((name) => `\`${name}\``).join(', ')}.`);
}
