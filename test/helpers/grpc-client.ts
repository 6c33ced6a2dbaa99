import { isDeepStrictEqual } from 'node:util';
import { Client as Channel, credentials, Metadata, type ServiceError as CallError } from '@grpc/grpc-js';
import { compileDecoder, decodeBody, decodeStrings } from '../../src/core/decode.js';
import { compileEncoder } from '../../src/core/encode.js';
import type { HttpBinding, Operation } from '../../src/core/operation.js';
import { type ErrorCode, ServiceError } from '../../src/errors.js';
import type { Codec } from '../../src/grpc/codec.js';
import { compileMessage } from '../../src/grpc/field-codec.js';
import { type ProtoMessage, Protos } from '../../src/grpc/protos.js';
import { MAX_BODY_BYTES } from '../../src/http/body.js';
import { takesBody } from '../../src/http/input.js';
import { problemOf } from '../../src/http/problem.js';
import { parseQuery } from '../../src/http/query.js';
import { operations } from '../../src/operations.js';
import type { Answer, Client } from './service.js';

/*
 * The client of the behaviour suites over gRPC: it takes a REST request, makes the call that says the same, and answers what REST would have.
 * So one suite runs every scenario over both transports. A request that gRPC cannot express (an unknown field, a string for a number) goes
 * over REST.
 */

type AnyOperation = Operation;

interface Route {
  readonly operation: AnyOperation;
  readonly binding: HttpBinding;
  readonly path: Readonly<Record<string, string>>;
}

interface Rpc {
  readonly path: string;
  readonly request: { readonly message: ProtoMessage; readonly codec: Codec };
  readonly response: { readonly message: ProtoMessage; readonly codec: Codec };
}

const protos = new Protos({ defaults: true });
const context = { protos, onEnum: () => undefined };
const rpcs = new Map(operations.map((operation) => [operation.name, rpcOf(operation as unknown as AnyOperation)]));
const Status = protos.message('google.rpc.Status');

function rpcOf({ name, group, input, output }: AnyOperation): Rpc {
  const method = protos.service(group)[name]!;
  const end = (schema: AnyOperation['input'], type: unknown) => {
    const message = protos.message(`stint.v1.${(type as { type: { name: string } }).type.name}`);
    return { message, codec: compileMessage(schema, message.name, context) };
  };
  return { path: method.path, request: end(input, method.requestType), response: end(output, method.responseType) };
}

/** A client of the same tenant over gRPC at `target`. */
export function overGrpc(rest: Client, target: string): Client {
  const channel = new Channel(target, credentials.createInsecure());
  const request: Client['request'] = async (method, path, body, init = {}) => {
    const call = expressed(method, path, body, init);
    return call === undefined ? rest.request(method, path, body, init) : send(channel, rest.key, call, init);
  };
  return {
    base: rest.base,
    key: rest.key,
    request,
    get: (path) => request('GET', path),
    post: (path, body, init) => request('POST', path, body, init),
    put: (path, body) => request('PUT', path, body),
    patch: (path, body) => request('PATCH', path, body),
    delete: (path) => request('DELETE', path),
  };
}

interface Expressed {
  readonly route: Route;
  readonly rpc: Rpc;
  readonly bytes: Buffer;
}

/** The call that says what the request says; undefined when there is none. */
function expressed(method: string, target: string, body: unknown, init: RequestInit): Expressed | undefined {
  const route = routeOf(method, target);
  if (route === undefined) return undefined;
  try {
    const input = inputOf(route, target, body, init);
    const rpc = rpcs.get(route.operation.name)!;
    const { message, codec } = rpc.request;
    const errors = takeErrors(input);
    const written = codec.write(input) as Record<string, unknown>;
    giveErrors(written, errors);
    const bytes = message.serialize(written);
    const back = codec.read(message.deserialize(bytes), '') as Record<string, unknown>;
    takeErrors(back);
    return isDeepStrictEqual(back, input) ? { route, rpc, bytes } : undefined;
  } catch {
    return undefined;
  }
}

function routeOf(method: string, target: string): Route | undefined {
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

function inputOf(route: Route, target: string, body: unknown, init: RequestInit): Record<string, unknown> {
  const { operation, binding, path } = route;
  const decoder = compileDecoder(binding.form?.input ?? operation.input);
  const headers = new Headers(init.headers);
  const text = body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body);
  refuse(init.body != null || headers.has('content-encoding') || headers.has('content-type'));
  refuse(text.length > MAX_BODY_BYTES || (takesBody(binding) && target.includes('?')));
  const input = takesBody(binding)
    ? decodeBody(decoder, Buffer.from(text))
    : decodeStrings(decoder, parseQuery(target));
  const elsewhere = [...Object.keys(path), ...Object.keys(binding.fixed ?? {}), ...(binding.omit ?? [])];
  refuse(elsewhere.some((name) => name in input));
  for (const [header, name] of Object.entries(binding.headers ?? {})) {
    const value = headers.get(header);
    refuse(value !== null && name in input);
    if (value !== null) input[name] = value;
  }
  Object.assign(input, decodeStrings(decoder, path), binding.fixed);
  return binding.form === undefined ? input : (binding.form.toInput(input as never) as Record<string, unknown>);
}

function refuse(isRestAlone: boolean): void {
  if (isRestAlone) throw new Error('REST alone');
}

/** The errors of nacks, which are JSON text in the table and a message in proto; taken out of the input. */
function takeErrors(input: Record<string, unknown>): Map<object, string> {
  const errors = new Map<object, string>();
  const settle = input['settle'] as Record<string, unknown> | undefined;
  for (const list of [input['items'], input['nacks'], settle?.['nacks']]) {
    for (const item of Array.isArray(list) ? (list as Record<string, unknown>[]) : []) {
      if (typeof item['error'] === 'string') errors.set(item, item['error']);
      delete item['error'];
    }
  }
  return errors;
}

function giveErrors(written: Record<string, unknown>, errors: ReadonlyMap<object, string>): void {
  if (errors.size === 0) return;
  const settle = written['settle'] as Record<string, unknown> | undefined;
  const items = (written['items'] ?? written['nacks'] ?? settle?.['nacks']) as { leaseToken: string; error?: object }[];
  for (const [item, text] of errors) {
    const { message, type, detail, ...others } = JSON.parse(text) as Record<string, unknown>;
    const isOne = typeof message === 'string' && (type === undefined || typeof type === 'string');
    const isWhole = detail === undefined || text.includes(JSON.stringify(detail));
    if (!isOne || !isWhole || Object.keys(others).length > 0) throw new Error('REST alone');
    const place = items.find(({ leaseToken }) => leaseToken === (item as { leaseToken: string }).leaseToken)!;
    place.error = { message, type, ...(detail === undefined ? {} : { detail: Buffer.from(JSON.stringify(detail)) }) };
  }
}

async function send(
  channel: Channel,
  key: string,
  { route, rpc, bytes }: Expressed,
  init: RequestInit,
): Promise<Answer> {
  const metadata = new Metadata();
  const headers = new Headers(init.headers);
  metadata.set('authorization', headers.get('authorization') ?? `Bearer ${key}`);
  const requestId = headers.get('x-request-id');
  if (requestId !== null) metadata.set('x-request-id', requestId);
  let answered: Metadata | undefined;
  try {
    const output = await new Promise<unknown>((resolve, reject) => {
      const call = channel.makeUnaryRequest(
        rpc.path,
        (value: Buffer) => value,
        (received: Buffer) => rpc.response.codec.read(rpc.response.message.deserialize(received), ''),
        bytes,
        metadata,
        (error, value) => (error === null ? resolve(value) : reject(error)),
      );
      call.on('metadata', (received: Metadata) => (answered = received));
      init.signal?.addEventListener('abort', () => call.cancel(), { once: true });
    });
    return succeeded(route, output, requestIdIn(answered));
  } catch (error) {
    if (error instanceof ServiceError) return failed(error, requestIdIn(answered));
    return failed(errorOf(error as CallError), detailsOf(error as CallError).requestId);
  }
}

function requestIdIn(metadata: Metadata | undefined): string {
  return String(metadata?.get('x-request-id')[0]);
}

const ONE_JOB = new Set(['GetJob', 'UpdateJob', 'CancelJob']);

function succeeded({ operation, binding }: Route, output: unknown, requestId: string): Answer {
  const { form, status = 200 } = binding;
  const shown = form === undefined ? output : form.toOutput(output as never);
  // An empty list is none in a message; REST shows that of one job.
  if (ONE_JOB.has(operation.name)) (shown as { attempts?: unknown[] }).attempts ??= [];
  const text = compileEncoder(form?.output ?? operation.output)(shown);
  const headers = { 'content-type': 'application/json', 'x-request-id': requestId };
  return answerOf(typeof status === 'number' ? status : status(shown), text, headers);
}

function failed(error: ServiceError, requestId: string): Answer {
  const { status, headers, body } = problemOf(error, requestId);
  return answerOf(status, body, { ...headers, 'x-request-id': requestId });
}

function answerOf(status: number, text: string, headers: Readonly<Record<string, string>>): Answer {
  return { status, text, headers: new Headers(headers), body: JSON.parse(text) };
}

interface Detail {
  readonly type_url: string;
  readonly value: Buffer;
}

/** The error that the service raised, read from the details of the status. */
export function errorOf(error: CallError): ServiceError {
  const { code, ...details } = detailsOf(error);
  return new ServiceError(code, error.details, details);
}

function detailsOf(error: CallError) {
  const [packed] = error.metadata.get('grpc-status-details-bin');
  if (packed === undefined) throw error;
  const { details } = Status.deserialize(packed as Buffer) as { readonly details: readonly Detail[] };
  const read = (name: string): any => {
    const detail = details.find(({ type_url: type }) => type.endsWith(`/google.rpc.${name}`));
    return detail === undefined ? undefined : protos.message(`google.rpc.${name}`).deserialize(detail.value);
  };
  const { reason, metadata } = read('ErrorInfo');
  const { requestId, ...extra } = metadata as Record<string, string>;
  const fields = (read('BadRequest')?.fieldViolations ?? []).map((violation: any) => ({
    field: violation.field,
    message: violation.description,
  }));
  const retryAfter = read('RetryInfo')?.retryDelay?.seconds as number | undefined;
  return {
    code: reason as ErrorCode,
    requestId: requestId!,
    extra,
    fields,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}
