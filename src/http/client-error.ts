import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ServiceError } from '../errors.js';
import type { Connections } from './connections.js';
import { problemOf } from './problem.js';
import { SECURITY_HEADERS } from './security-headers.js';

const LINGER_MS = 1_000;

/** Answers bytes of which Node could make no request: malformed, too large, or not there in time. */
export function answerClientError(error: Error, socket: Socket, connections: Connections): void {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  if (connections.isAnswering(socket)) {
    connections.closeWhenAnswered(socket);
    return;
  }
  socket.end(rawAnswer(problemFor(error)));
  // Closing at once, with bytes unread, would reset the connection before the client has read the answer.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

function problemFor(error: Error): ServiceError {
  switch ('code' in error ? error.code : undefined) {
    case 'HPE_HEADER_OVERFLOW':
      return new ServiceError('HEADERS_TOO_LARGE', 'the request line and headers must be at most 16 KiB long');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ServiceError('REQUEST_TIMEOUT', 'the request did not arrive in time');
    default:
      return new ServiceError('INVALID_ARGUMENT', 'the request is not well-formed HTTP');
  }
}

function rawAnswer(error: ServiceError): string {
  const requestId = randomUUID();
  const { status, headers, body } = problemOf(error, requestId);
  const lines = Object.entries({
    ...headers,
    ...SECURITY_HEADERS,
    'content-length': Buffer.byteLength(body),
    'x-request-id': requestId,
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}
