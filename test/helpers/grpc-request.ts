import { isDeepStrictEqual } from 'node:util';
import { isJsonType, JSON_TYPE } from '../../src/core/content-type.js';
import { compileDecoder, decodeBody, decodeStrings } from '../../src/core/decode.js';
import type { HttpBinding, HttpForm, Operation } from '../../src/core/operation.js';
import { checkJsonBytes } from '../../src/core/payload.js';
import type { Codec } from '../../src/grpc/codec.js';
import { compileMessage } from '../../src/grpc/field-codec.js';
import { type ProtoMessage, Protos } from '../../src/grpc/protos.js';
import { MAX_BODY_BYTES } from '../../src/http/body.js';
import { takesBody } from '../../src/http/input.js';
import { parseQuery } from '../../src/http/query.js';
import { parseLeaseToken } from '../../src/jobs/lease-token.js';
import { operations } from '../../src/operations.js';
import type { RestAlone } from './rest-alone.js';

type AnyOperation = Operation;
type Input = Record<string, unknown>;

export interface Route {
  readonly operation: AnyOperation;
  readonly binding: HttpBinding;
  readonly path: Readonly<Record<string, string>>;
}

interface Rpc {
  readonly path: string;
  readonly request: { readonly message: ProtoMessage; readonly codec: Codec };
  readonly response: { readonly message: ProtoMessage; readonly codec: Codec };
}

/** A REST request as the call that says the same. */
export interface GrpcRequest {
  readonly route: Route;
  readonly rpc: Rpc;
  readonly bytes: Buffer;
  /** A field that must be given may be missing: a message does not tell that from its zero. */
  readonly mayLack: boolean;
  /** The field of a message that is called payload is payloadBase64 in the request. */
  readonly inBase64: boolean;
}

export interface RestRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly body: unknown;
  readonly init: RequestInit;
}

export const protos = new Protos({ defaults: true });
const context = { protos, onEnum: () => undefined };
const rpcs = new Map(operations.map((operation) => [operation.name, rpcOf(operation as unknown as AnyOperation)]));

function rpcOf({ name, group, input, output }: AnyOperation): Rpc {
  const method = protos.service(group)[name]!;
  const end = (schema: AnyOperation['input'], type: unknown) => {
    const message = protos.message(`stint.v1.${(type as { type: { name: string } }).type.name}`);
    return { message, codec: compileMessage(schema, message.name, context) };
  };
  return { path: method.path, request: end(input, method.requestType), response: end(output, method.responseType) };
}

/** The call that says what the request says; why it has to go over REST when there is none. */
export function grpcRequest(request: RestRequest): GrpcRequest | RestAlone {
  const route = routeOf(request);
  if (route === undefined) return 'no operation';
  try {
    return written(route, inputOf(route, request));
  } catch (error) {
    return error instanceof FreeError ? 'error of another form' : 'not a message';
  }
}

function written(route: Route, input: Input): GrpcRequest {
  const rpc = rpcs.get(route.operation.name)!;
  const { message, codec } = rpc.request;
  const errors = takeErrors(input);
  const values = codec.write(input) as Input;
  giveErrors(values, errors);
  const bytes = message.serialize(values);
  const back = codec.read(message.deserialize(bytes), '') as Input;
  takeErrors(back);
  const zeros = zerosIn(back, input);
  refuse(!isDeepStrictEqual(back, { ...input, ...zeros }));
  return {
    route,
    rpc,
    bytes,
    mayLack: Object.keys(zeros).length > 0 || listOf(input['items'])[0]?.['leaseToken'] === '',
    inBase64: input['payloadBase64'] !== undefined,
  };
}

function routeOf({ method, target }: RestRequest): Route | undefined {
  const given = target.split('?')[0]!.split('/');
  for (const operation of operations as unknown as readonly AnyOperation[]) {
    for (const binding of operation.http) {
      const parts = binding.path.split('/');
      if (binding.method !== method || parts.length !== given.length) continue;
      if (!parts.every((part, index) => part.startsWith(':') || part === given[index])) continue;
      const path = parts.flatMap((part, index) => (part.startsWith(':') ? [[part.slice(1), given[index]!]] : []));
      return { operation, binding, path: Object.fromEntries(path) as Record<string, string> };
    }
  }
  return undefined;
}

function inputOf({ operation, binding, path }: Route, { target, body, init }: RestRequest): Input {
  const decoder = compileDecoder(binding.form?.input ?? operation.input);
  const headers = new Headers(init.headers);
  refuse(headers.has('content-encoding') || (headers.get('content-type') ?? JSON_TYPE) !== JSON_TYPE);
  refuse(takesBody(binding) && target.includes('?'));
  const given = bytesOf(body ?? init.body);
  refuse(given.length > MAX_BODY_BYTES);
  const input = takesBody(binding) ? decodeBody(decoder, given) : decodeStrings(decoder, parseQuery(target));
  const elsewhere = [...Object.keys(path), ...Object.keys(binding.fixed ?? {}), ...(binding.omit ?? [])];
  refuse(elsewhere.some((name) => name in input));
  for (const [header, name] of Object.entries(binding.headers ?? {})) {
    const value = headers.get(header);
    refuse(value !== null && (input[name] ?? value) !== value);
    if (value !== null) input[name] = value;
  }
  Object.assign(input, decodeStrings(decoder, path), binding.fixed);
  for (const job of [input, ...listOf(input['jobs'])]) takeBase64(job);
  return binding.form === undefined ? input : inForm(binding.form, input);
}

/** What the input lacks and a message has all the same, as its zero. */
function zerosIn(back: Input, input: Input): Input {
  const isZero = (value: unknown): boolean => value === '' || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(back).filter(([name, value]) => !(name in input) && isZero(value)));
}

/** REST refuses what is no token before the operation sees it; a message has it as an item. */
function inForm({ toInput }: HttpForm, input: Input): Input {
  const { leaseToken = '' } = input;
  const isNone = typeof leaseToken === 'string' && parseLeaseToken(leaseToken) === undefined;
  if (!isNone) return toInput(input as never) as Input;
  const item: Input = { ...input, leaseToken };
  delete item['id'];
  return { items: [item] };
}

function refuse(isRestAlone: boolean): void {
  if (isRestAlone) throw new Error('REST alone');
}

function bytesOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(body == null ? '' : typeof body === 'string' ? body : JSON.stringify(body));
}

function listOf(value: unknown): Input[] {
  return Array.isArray(value) ? (value as Input[]) : [];
}

/** REST tells bytes from JSON by the field, proto by the content type. */
function takeBase64(job: Input): void {
  const { payload, payloadBase64: bytes, contentType = 'application/octet-stream' } = job;
  if (!Buffer.isBuffer(bytes) || payload !== undefined || typeof contentType !== 'string') return;
  job['contentType'] = contentType;
  if (!isJsonType(contentType) || checkJsonBytes(bytes) !== undefined) return;
  job['payload'] = bytes.toString('utf8');
  delete job['payloadBase64'];
}

/** The errors of nacks, which are JSON text in the table and a message in proto; taken out of the input. */
function takeErrors(input: Input): Map<object, string> {
  const errors = new Map<object, string>();
  for (const item of nacksIn(input)) {
    if (typeof item['error'] === 'string') errors.set(item, item['error']);
    delete item['error'];
  }
  return errors;
}

function nacksIn(input: Input): Input[] {
  const settle = input['settle'] as Input | undefined;
  return [input['items'], input['nacks'], settle?.['nacks']].flatMap(listOf);
}

function giveErrors(values: Input, errors: ReadonlyMap<object, string>): void {
  const nacks = nacksIn(values);
  for (const [item, text] of errors) {
    nacks.find(({ leaseToken }) => leaseToken === (item as Input)['leaseToken'])!['error'] = errorMessage(text);
  }
}

/** A nack's error may be any JSON in REST. */
class FreeError extends Error {}

function errorMessage(text: string): object {
  const { message, type, detail, ...others } = (JSON.parse(text) ?? {}) as Input;
  const isOne = typeof message === 'string' && (type === undefined || typeof type === 'string');
  const isWhole = detail === undefined || text.includes(JSON.stringify(detail));
  if (!isOne || !isWhole || Object.keys(others).length > 0) throw new FreeError();
  return { message, type, ...(detail === undefined ? {} : { detail: Buffer.from(JSON.stringify(detail)) }) };
}
