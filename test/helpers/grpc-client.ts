import { Client as Channel, credentials, Metadata, type ServiceError as CallError } from '@grpc/grpc-js';
import { compileEncoder } from '../../src/core/encode.js';
import { type ErrorCode, ServiceError } from '../../src/errors.js';
import { problemOf } from '../../src/http/problem.js';
import { type GrpcRequest, grpcRequest, protos, type Route } from './grpc-request.js';
import { assertRestAlone } from './rest-alone.js';
import type { Answer, Client } from './service.js';

/*
 * The client of the behaviour suites over gRPC: it takes a REST request, makes the call that says the same, and answers what REST would have.
 * So one suite runs every scenario over both transports. A request that gRPC cannot express (an unknown field, a string for a number) goes
 * over REST, and fails there unless it is refused as it has to be.
 */

const Status = protos.message('google.rpc.Status');

/** A client of the same tenant over gRPC at `target`. */
export function overGrpc(rest: Client, target: string): Client {
  const channel = new Channel(target, credentials.createInsecure());
  const request: Client['request'] = async (method, path, body, init = {}) => {
    const call = grpcRequest({ method, target: path, body, init });
    const why = typeof call === 'string' ? call : 'not a message';
    if (typeof call !== 'string') {
      const answer = await send(channel, rest.key, call, init);
      if (!call.mayLack || answer.body.code !== 'INVALID_ARGUMENT') return answer;
    }
    const answer = await rest.request(method, path, body, init);
    assertRestAlone(why, `${method} ${path}`, answer);
    return answer;
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

async function send(
  channel: Channel,
  key: string,
  { route, rpc, bytes, inBase64 }: GrpcRequest,
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
    const { requestId } = detailsOf(error as CallError);
    return failed(inBase64 ? renamed(errorOf(error as CallError)) : errorOf(error as CallError), requestId);
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

/** As REST calls the payload that it was given in base64. */
function renamed({ code, message, fields, extra, retryAfter }: ServiceError): ServiceError {
  const named = fields.map(({ field, ...rest }) => ({ ...rest, field: field === 'payload' ? 'payloadBase64' : field }));
  return new ServiceError(code, message, { fields: named, extra, ...(retryAfter === undefined ? {} : { retryAfter }) });
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
