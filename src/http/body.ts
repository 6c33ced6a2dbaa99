import type { IncomingMessage } from 'node:http';
import type { Eventual } from '../core/eventual.js';
import { ServiceError } from '../errors.js';
import type { Exchange } from './exchange.js';

export const MAX_BODY_BYTES = 8 * 1024 * 1024;

/** Whether the request announces a body, be it an empty one. */
export function hasBody(request: IncomingMessage): boolean {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return encoding !== undefined || (length !== undefined && length !== '0');
}

/**
 * Refuses what is not JSON in UTF-8. Without a content type a body is taken as JSON; an essence of `application/json` or
 * one that ends in `+json` is JSON; parameters other than `charset` say nothing.
 */
export function checkMediaType(request: IncomingMessage): void {
  const { 'content-type': type, 'content-encoding': encoding = 'identity' } = request.headers;
  if (encoding.trim().toLowerCase() !== 'identity')
    throw unsupported('a compressed body is not taken: leave out Content-Encoding');
  if (type === undefined || type === 'application/json') return;
  const [essence, ...parameters] = type.split(';').map((part) => part.trim().toLowerCase());
  if (!/^(application\/json|[^\s/]+\/[^\s/]+\+json)$/.test(essence ?? '')) {
    throw unsupported('the body must be JSON: send Content-Type: application/json');
  }
  for (const parameter of parameters) {
    const [name, value = ''] = parameter.split('=');
    if (name === 'charset' && !/^("utf-?8"|utf-?8)$/.test(value)) throw unsupported('the body must be in UTF-8');
  }
}

function unsupported(message: string): ServiceError {
  return new ServiceError('UNSUPPORTED_MEDIA_TYPE', message);
}

/**
 * Reads a request's body whole.
 * @param timeoutMs How long the client may take, from now.
 * @throws PAYLOAD_TOO_LARGE past `MAX_BODY_BYTES`; REQUEST_TIMEOUT; INVALID_ARGUMENT for a body that was cut short, which
 * nobody is left to read.
 */
export function readBody(exchange: Exchange, timeoutMs: number): Eventual<Buffer> {
  const { request } = exchange;
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  exchange.permitBody();
  if (request.complete) {
    const whole = request.read() as Buffer | null;
    if (whole !== null && whole.length > MAX_BODY_BYTES) throw tooLarge();
    return whole ?? Buffer.alloc(0);
  }
  return receive(request, timeoutMs);
}

function tooLarge(): ServiceError {
  return new ServiceError('PAYLOAD_TOO_LARGE', `the body must be at most ${MAX_BODY_BYTES} bytes long`);
}

function receive(request: IncomingMessage, timeoutMs: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const timer = setTimeout(
      () => fail(new ServiceError('REQUEST_TIMEOUT', 'the body did not arrive in time')),
      timeoutMs,
    );
    const stop = (): void => {
      clearTimeout(timer);
      request.off('data', take).off('end', finish).off('close', cut).off('error', cut).pause();
    };
    const fail = (error: ServiceError): void => {
      stop();
      reject(error);
    };
    const take = (chunk: Buffer): void => {
      length += chunk.length;
      if (length > MAX_BODY_BYTES) fail(tooLarge());
      else chunks.push(chunk);
    };
    const finish = (): void => {
      stop();
      resolve(Buffer.concat(chunks, length));
    };
    const cut = (): void => fail(new ServiceError('INVALID_ARGUMENT', 'the body was cut short'));
    request.on('data', take).on('end', finish).on('close', cut).on('error', cut);
  });
}
