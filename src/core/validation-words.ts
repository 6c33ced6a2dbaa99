import type { ErrorObject } from 'ajv';
import type { FieldError } from '../errors.js';
import { DURATION_HINT, durationInWords } from './duration.js';
import { joinPath } from './field-path.js';
import { EXCLUSIVE } from './service-schema.js';
import { formatTimestamp, TIMESTAMP_HINT } from './timestamp.js';

type Schema = Readonly<Record<string, unknown>>;

/** A fault as callers see it: a sentence, and the fields at fault. */
export interface Refusal {
  readonly sentence: string;
  readonly fields: readonly [FieldError, ...FieldError[]];
}

/** Puts Ajv's first complaint about `root` into words that name the field and the limit; `rootName` is the root's own name. */
export function describeError(error: ErrorObject, root: unknown, rootName: string): Refusal {
  const names = pathOf(error.instancePath, root);
  const schema = (error.parentSchema ?? {}) as Schema;
  const params = error.params as Schema;
  const fieldOf = (...more: string[]): string => pathText([...names, ...more]) || rootName;
  const one = (field: string, message: string): Refusal => ({
    sentence: `${field} ${message}`,
    fields: [{ field, message }],
  });
  switch (error.keyword) {
    case 'required':
      return one(fieldOf(params.missingProperty as string), 'is required');
    case 'additionalProperties':
      return one(fieldOf(params.additionalProperty as string), 'is not a known field');
    case 'discriminator':
      return one(fieldOf(params.tag as string), oneOf(schema.values as readonly unknown[]));
    case EXCLUSIVE: {
      const [first, second] = (params.pair as readonly [string, string]).map((name) => fieldOf(name)) as [
        string,
        string,
      ];
      const fields = [
        { field: first, message: `excludes ${second}` },
        { field: second, message: `excludes ${first}` },
      ] as const;
      return { sentence: `${first} and ${second} exclude each other`, fields };
    }
    default:
      return one(fieldOf(), predicate(error.keyword, { schema, params }));
  }
}

function predicate(keyword: string, { schema, params }: { schema: Schema; params: Schema }): string {
  const limit = (): string => boundInWords(Number(params.limit), schema.form);
  switch (keyword) {
    case 'type':
      return typeInWords((schema.form ?? schema.type) as string);
    case 'enum':
      return oneOf(params.allowedValues as readonly unknown[]);
    case 'minimum':
      return `must be at least ${limit()}`;
    case 'maximum':
      return `must be at most ${limit()}`;
    case 'exclusiveMinimum':
      return `must be more than ${limit()}`;
    case 'exclusiveMaximum':
      return `must be less than ${limit()}`;
    case 'multipleOf':
      return `must be a multiple of ${String(params.multipleOf)}`;
    case 'minLength':
      return params.limit === 1 ? 'must not be empty' : `must be at least ${count(params.limit, 'character')}`;
    case 'maxLength':
      return `must be at most ${count(params.limit, 'character')}`;
    case 'pattern':
      return patternInWords(schema);
    case 'uniqueItems':
      return 'must not have the same item twice';
    default:
      return sizeInWords(keyword, params);
  }
}

function sizeInWords(keyword: string, params: Schema): string {
  switch (keyword) {
    case 'minItems':
      return `must have at least ${count(params.limit, 'item')}`;
    case 'maxItems':
      return `must have at most ${count(params.limit, 'item')}`;
    case 'minProperties':
      return `must have at least ${count(params.limit, 'entry')}`;
    case 'maxProperties':
      return `must have at most ${count(params.limit, 'entry')}`;
    default:
      return params.message as string;
  }
}

function count(limit: unknown, noun: string): string {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${String(limit)} ${limit === 1 ? noun : plural}`;
}

function boundInWords(limit: number, form: unknown): string {
  if (form === 'duration') return durationInWords(limit);
  return form === 'timestamp' ? formatTimestamp(limit) : String(limit);
}

function patternInWords(schema: Schema): string {
  const hint = schema['x-pattern-hint'] as string | undefined;
  if (hint?.startsWith('a ') === true || hint?.startsWith('an ') === true) return `must be ${hint}`;
  return `must match ${hint ?? (schema.pattern as string)}`;
}

function oneOf(values: readonly unknown[]): string {
  return values.length === 1 ? `must be ${String(values[0])}` : `must be one of ${values.join(', ')}`;
}

function typeInWords(type: string): string {
  switch (type) {
    case 'duration':
      return DURATION_HINT;
    case 'timestamp':
      return TIMESTAMP_HINT;
    case 'json':
      return 'must be JSON text';
    case 'boolean':
      return 'must be true or false';
    default:
      return `must be ${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`;
  }
}

// A pointer alone does not tell the item `[1]` from a header called `1`, so the path follows the value.
function pathOf(pointer: string, root: unknown): (string | number)[] {
  let value = root;
  return pointer
    .split('/')
    .slice(1)
    .map((part) => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      const step = Array.isArray(value) ? Number(name) : name;
      value = (value as Record<string | number, unknown>)[step];
      return step;
    });
}

function pathText(names: readonly (string | number)[]): string {
  return names.reduceRight<string>((inner, name) => joinPath(name, inner), '');
}
