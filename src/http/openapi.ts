import type { TSchema } from 'typebox';
import { toWireSchema } from '../core/json-schema.js';
import type { HttpBinding, Operation } from '../core/operation.js';
import { takesBody } from './input.js';
import { ABOUT, GROUPS, problemReference, problemResponses, problemSchema } from './openapi-parts.js';

type Json = Record<string, unknown>;

interface ObjectSchema extends Json {
  readonly properties: Readonly<Record<string, Json>>;
  readonly required?: readonly string[];
}

/** The OpenAPI 3.1 document of the table's REST side. The same table gives the same document, key for key. */
export function buildOpenApi<Engine>(operations: readonly Operation<Engine>[], version: string): object {
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    for (const binding of operation.http) {
      const path = binding.path.replaceAll(/:(\w+)/g, '{$1}');
      (paths[path] ??= {})[binding.method.toLowerCase()] = describe(operation, binding);
    }
  }
  const groups = new Set(operations.map(({ group }) => group));
  return {
    openapi: '3.1.0',
    info: { title: 'Stint', version, description: ABOUT, license: { name: 'MIT', identifier: 'MIT' } },
    servers: [{ url: '/' }],
    tags: GROUPS.filter(({ name }) => groups.has(name)),
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API key, or a token of a configured issuer.' },
      },
      schemas: { Problem: problemSchema() },
      responses: problemResponses(),
    },
  };
}

function describe<Engine>(operation: Operation<Engine>, binding: HttpBinding): Json {
  const input = inputSchema(operation, binding);
  const pathNames = [...binding.path.matchAll(/:(\w+)/g)].map(([, name]) => name!);
  const rest = without(input, pathNames);
  const body = takesBody(binding) && Object.keys(rest.properties).length > 0;
  const parameters = [
    ...pathNames.map((name) => parameter('path', name, input.properties[name] ?? { type: 'string' }, true)),
    ...Object.entries(binding.headers ?? {}).map(([header, name]) =>
      parameter('header', header, input.properties[name] ?? {}, false),
    ),
    ...(takesBody(binding) ? [] : queryParameters(rest)),
  ];
  return {
    operationId: binding.operationId ?? `${operation.name}${binding.suffix ?? ''}`,
    tags: [operation.group],
    summary: binding.summary ?? operation.summary,
    description: descriptionOf(operation),
    'x-scopes': operation.scopes,
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: requestBody(rest, operation.example) }),
    responses: { ...successes(operation, binding), ...problems(binding, pathNames.length > 0) },
  };
}

function descriptionOf<Engine>({ description, scopes }: Operation<Engine>): string {
  const names = scopes.map((scope) => `\`${scope}\``).join(' or ');
  return [description, `Needs the scope ${names}.`].filter((part) => part !== undefined).join('\n\n');
}

function inputSchema<Engine>(operation: Operation<Engine>, binding: HttpBinding): ObjectSchema {
  const schema = toWireSchema(binding.form?.input ?? operation.input, { closed: true }) as ObjectSchema;
  return without(schema, [...(binding.omit ?? []), ...Object.keys(binding.fixed ?? {})]);
}

function without(schema: ObjectSchema, names: readonly string[]): ObjectSchema {
  const { properties, required = [], ...others } = schema;
  const left = required.filter((name) => !names.includes(name));
  return {
    ...others,
    properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name))),
    ...(left.length > 0 && { required: left }),
  };
}

function parameter(place: 'path' | 'query' | 'header', name: string, schema: Json, required: boolean): Json {
  const { description, ...rest } = schema;
  return { name, in: place, required, ...(description !== undefined && { description }), schema: rest };
}

function queryParameters({ properties, required = [] }: ObjectSchema): Json[] {
  return Object.entries(properties).map(([name, schema]) => parameter('query', name, schema, required.includes(name)));
}

function requestBody(schema: ObjectSchema, example: unknown): Json {
  const { required = [] } = schema;
  const fitting = exampleFor(schema, example);
  return {
    required: required.length > 0,
    content: { 'application/json': { schema, ...(fitting !== undefined && { example: fitting }) } },
  };
}

/** The row's example as this route takes it, or nothing where the route's form is another. */
function exampleFor({ properties, required = [] }: ObjectSchema, example: unknown): Json | undefined {
  if (typeof example !== 'object' || example === null) return undefined;
  const known = Object.fromEntries(Object.entries(example).filter(([name]) => name in properties));
  const fits = Object.keys(known).length > 0 && required.every((name) => name in known);
  return fits ? known : undefined;
}

function successes<Engine>(operation: Operation<Engine>, binding: HttpBinding): Json {
  const output: TSchema = binding.form?.output ?? operation.output;
  const statuses = binding.statuses ?? [typeof binding.status === 'number' ? binding.status : 200];
  const content = { 'application/json': { schema: toWireSchema(output) } };
  return Object.fromEntries(statuses.map((status) => [status, { description: 'Success', content }]));
}

function problems(binding: HttpBinding, namesSomething: boolean): Json {
  const statuses = [400, 401, 403, ...(namesSomething ? [404] : [])];
  if (takesBody(binding)) statuses.push(408, 413, 415);
  if (binding.method !== 'GET') statuses.push(409);
  statuses.push(429, 500, 503);
  return Object.fromEntries(statuses.map((status) => [status, problemReference(status)]));
}
