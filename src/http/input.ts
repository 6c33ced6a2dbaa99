import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { compileDecoder, decodeBody, type Decoder, decodeStrings } from '../core/decode.js';
import type { Eventual } from '../core/eventual.js';
import type { HttpBinding, Operation } from '../core/operation.js';
import { invalidField, ServiceError } from '../errors.js';
import { checkMediaType, hasBody, readBody } from './body.js';
import type { Exchange } from './exchange.js';
import { parseQuery } from './query.js';

type Input = Record<string, unknown>;
type PathValues = Readonly<Record<string, string>>;

const NO_BYTES = Buffer.alloc(0);

/** Whether a route of this method is given its input by a body; the others are given it by the query. */
export function takesBody(binding: HttpBinding): boolean {
  return binding.method !== 'GET' && binding.method !== 'DELETE';
}

/**
 * Compiles how one REST route makes an operation's input out of path, query, headers and body.
 * @returns A reader that raises INVALID_ARGUMENT, UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE and REQUEST_TIMEOUT.
 */
export function compileInput<Engine>(operation: Operation<Engine>, binding: HttpBinding, bodyTimeoutMs: number) {
  const decoder = compileDecoder(binding.form?.input ?? operation.input);
  const untaken = [...(binding.omit ?? []), ...Object.keys(binding.fixed ?? {})];
  const headers = Object.entries(binding.headers ?? {});
  const fromBody = takesBody(binding);

  function toInput({ request }: Exchange, path: PathValues, bytes: Buffer): Input {
    const query = parseQuery(request.url ?? '');
    const input = fromBody ? bodyInput(decoder, bytes, query) : queryInput(decoder, bytes, query);
    refuseNames(input, untaken, 'is not a known field');
    refuseNames(input, Object.keys(path), 'is given by the path');
    for (const [header, name] of headers) addHeader({ input, decoder, request, header, name });
    return Object.assign(input, decodeStrings(decoder, path), binding.fixed);
  }

  return function read(exchange: Exchange, path: PathValues): Eventual<Input> {
    const bytes = receive(exchange, fromBody, bodyTimeoutMs);
    return bytes instanceof Promise
      ? bytes.then((received) => toInput(exchange, path, received))
      : toInput(exchange, path, bytes);
  };
}

function receive(exchange: Exchange, mustBeJson: boolean, timeoutMs: number): Eventual<Buffer> {
  if (!hasBody(exchange.request)) return NO_BYTES;
  if (mustBeJson) checkMediaType(exchange.request);
  return readBody(exchange, timeoutMs);
}

function bodyInput(decoder: Decoder, bytes: Buffer, query: Readonly<Record<string, unknown>>): Input {
  refuseNames(query, Object.keys(query), 'is not taken from the query: send it in the body');
  return decodeBody(decoder, bytes);
}

function queryInput(decoder: Decoder, bytes: Buffer, query: Readonly<Record<string, string | string[]>>): Input {
  // Many clients send an empty object with every request.
  if (!/^(\{\s*\})?$/.test(bytes.toString('latin1').trim())) {
    throw new ServiceError('INVALID_ARGUMENT', 'this request takes no body: use the query');
  }
  return decodeStrings(decoder, query);
}

function refuseNames(input: Readonly<Input>, names: readonly string[], message: string): void {
  for (const name of names) if (Object.hasOwn(input, name)) throw invalidField(name, message);
}

interface HeaderInput {
  readonly input: Input;
  readonly decoder: Decoder;
  readonly request: IncomingMessage;
  readonly header: string;
  readonly name: string;
}

function addHeader({ input, decoder, request, header, name }: HeaderInput): void {
  if (request.headers[header] === undefined) return;
  const values = request.headersDistinct[header];
  if (values === undefined) return;
  const [value = '', ...more] = values;
  if (more.length > 0) throw invalidField(header, 'is given more than once');
  const bytes = Buffer.from(value, 'latin1');
  if (!isUtf8(bytes)) throw invalidField(header, 'must be valid UTF-8');
  const decoded = decodeStrings(decoder, { [name]: bytes.toString('utf8') })[name];
  if (Object.hasOwn(input, name) && input[name] !== decoded) throw conflict(header, name);
  input[name] = decoded;
}

function conflict(header: string, name: string): ServiceError {
  const fields = [
    { field: name, message: `differs from the header ${header}` },
    { field: header, message: `differs from ${name} in the body` },
  ];
  return new ServiceError('INVALID_ARGUMENT', `${name} differs from the header ${header}`, { fields });
}
