import { LIST_FORMATS, type ListFormat, listOf } from './config-formats.js';

/** The schema of one environment variable: what of JSON Schema we use, and our own annotations. */
export interface Variable {
  readonly type?: 'integer' | 'string';
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly pattern?: string;
  readonly format?: 'uri';
  readonly default?: string | number;
  readonly description?: string;
  /** What is accepted, in words, where the schema's own limits do not say it. */
  readonly 'x-accepts'?: string;
  /** What holds when it is absent, in words. */
  readonly 'x-default'?: string;
  readonly 'x-secret'?: boolean;
  /** It is a comma-separated list of items of this format. */
  readonly 'x-list'?: ListFormat;
}

/** What is wrong with `given` in words that name the variable and what it accepts; undefined when nothing is. */
export function faultIn(name: string, given: string, schema: Variable): string | undefined {
  if (isAccepted(given, schema)) return undefined;
  if (given === '') return `${name} is empty: give ${accepts(schema)}, or unset it`;
  if (schema['x-secret'] === true) return `${name} is not what it should be (not shown): give ${accepts(schema)}`;
  const wrong = itemAtFault(given, schema);
  if (wrong !== undefined) return `${name} holds ${shown(wrong)}: give ${accepts(schema)}`;
  return `${name} is ${shown(given)}: give ${accepts(schema)}`;
}

/** A value on one line, without the user and the password of a URL, whichever variable it was put into. */
function shown(given: string): string {
  return JSON.stringify(given.replace(/(:\/\/)\S*@/g, '$1[hidden]@'));
}

/** The value that an accepted text stands for. */
export function parse(given: string, schema: Variable): string | number {
  return schema.type === 'integer' ? Number(given) : given;
}

/** What a variable accepts, in words. */
export function accepts(schema: Variable): string {
  if (schema['x-accepts'] !== undefined) return schema['x-accepts'];
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`;
  return `a whole number from ${schema.minimum ?? 0} to ${schema.maximum ?? Number.MAX_SAFE_INTEGER}`;
}

function isAccepted(given: string, schema: Variable): boolean {
  if (schema.enum !== undefined) return schema.enum.includes(given);
  if (schema.type === 'integer') return isWholeNumber(given, schema);
  if (itemAtFault(given, schema) !== undefined) return false;
  if (schema.format === 'uri' && !URL.canParse(given)) return false;
  return given.length >= (schema.minLength ?? 1) && new RegExp(schema.pattern ?? '').test(given);
}

function isWholeNumber(given: string, { minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: Variable): boolean {
  return /^\d{1,15}$/.test(given) && Number(given) >= minimum && Number(given) <= maximum;
}

function itemAtFault(given: string, { 'x-list': format }: Variable): string | undefined {
  return format === undefined ? undefined : listOf(given).find((item) => !LIST_FORMATS[format](item));
}
