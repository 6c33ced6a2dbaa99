import type { TSchema } from 'typebox';
import { LENIENT, WIRE, type WireKind } from './wire.js';

/** A TypeBox schema as the JSON Schema that it is. */
export interface JsonSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: TSchema | boolean;
  readonly patternProperties?: Readonly<Record<string, TSchema>>;
  readonly items?: TSchema;
  readonly anyOf?: readonly TSchema[];
  readonly enum?: readonly Literal[];
  readonly const?: Literal;
  readonly description?: string;
  readonly [keyword: string]: unknown;
}

export type Literal = string | number | boolean;

/** What a schema describes, in the few kinds that the operation table uses. */
export type Form =
  | { readonly kind: WireKind | 'string' | 'integer' | 'number' | 'boolean' | 'any' }
  | { readonly kind: 'choice'; readonly values: readonly Literal[] }
  | { readonly kind: 'array'; readonly items: TSchema; readonly lenient: boolean }
  | ObjectForm
  | { readonly kind: 'record'; readonly values: TSchema; readonly names: string | undefined }
  | TaggedForm;

export interface ObjectForm {
  readonly kind: 'object';
  readonly properties: readonly (readonly [name: string, schema: TSchema])[];
  readonly required: ReadonlySet<string>;
  readonly open: boolean;
}

/** A union of objects that one property of literals tells apart. */
export interface TaggedForm {
  readonly kind: 'tagged';
  readonly tag: string;
  readonly variants: ReadonlyMap<Literal, TSchema>;
}

/**
 * Tells what a schema describes.
 *
 * @throws Error for a schema outside these kinds: a mistake in the operation table, found when it is compiled
 */
export function formOf(schema: TSchema): Form {
  const json = schema as JsonSchema;
  const wire = json[WIRE] as WireKind | undefined;
  if (wire !== undefined) return { kind: wire };
  if (json.const !== undefined) return { kind: 'choice', values: [json.const] };
  if (json.enum !== undefined) return { kind: 'choice', values: json.enum };
  if (json.anyOf !== undefined) return unionForm(json.anyOf);
  switch (json.type) {
    case 'string':
    case 'integer':
    case 'number':
    case 'boolean':
      return { kind: json.type };
    case 'array':
      return { kind: 'array', items: json.items ?? {}, lenient: json[LENIENT] === true };
    case 'object':
      return objectForm(json);
    case undefined:
      if (json.allOf === undefined && json.oneOf === undefined && json.$ref === undefined) return { kind: 'any' };
  }
  throw new Error(`no operation may use this schema: ${JSON.stringify(schema)}`);
}

function objectForm(json: JsonSchema): Form {
  const names = Object.keys(json.patternProperties ?? {})[0];
  if (json.properties === undefined || Object.keys(json.properties).length === 0) {
    const values = names === undefined ? json.additionalProperties : json.patternProperties?.[names];
    if (typeof values === 'object') return { kind: 'record', values, names: names === '^.*$' ? undefined : names };
  }
  return {
    kind: 'object',
    properties: Object.entries(json.properties ?? {}),
    required: new Set(json.required),
    open: json.additionalProperties === true,
  };
}

function unionForm(members: readonly TSchema[]): Form {
  const forms = members.map(formOf);
  if (forms.every((form) => form.kind === 'choice')) {
    return { kind: 'choice', values: forms.flatMap((form) => form.values) };
  }
  const tag = tagOf(forms);
  if (tag === undefined)
    throw new Error(`no property tells the members of this union apart: ${JSON.stringify(members)}`);
  const variants = new Map<Literal, TSchema>();
  for (const [index, form] of forms.entries()) {
    for (const value of literalsOf(form, tag)) variants.set(value, members[index]!);
  }
  return { kind: 'tagged', tag, variants };
}

function tagOf(forms: readonly Form[]): string | undefined {
  const [first] = forms;
  if (first?.kind !== 'object') return undefined;
  return first.properties
    .map(([name]) => name)
    .find((name) => {
      const values = forms.map((form) => literalsOf(form, name));
      return values.every((some) => some.length > 0) && new Set(values.flat()).size === values.flat().length;
    });
}

function literalsOf(form: Form, name: string): readonly Literal[] {
  if (form.kind !== 'object' || !form.required.has(name)) return [];
  const property = form.properties.find(([own]) => own === name);
  const own = property === undefined ? undefined : formOf(property[1]);
  return own?.kind === 'choice' ? own.values : [];
}
