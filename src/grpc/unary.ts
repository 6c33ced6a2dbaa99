import { type handleUnaryCall, Metadata } from '@grpc/grpc-js';
import type { Call } from '../core/invoke.js';
import type { Operation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import { GrpcCall, type GrpcCallParts } from './call.js';
import type { CodecContext } from './codec.js';
import type { Exchanges } from './exchange.js';
import { Malformed } from './malformed.js';
import { compileMessage } from './field-codec.js';
import type { FailedStatus } from './status.js';

export interface UnaryParts<Engine> {
  readonly invoke: (operation: Operation<Engine>, call: Call) => Promise<unknown>;
  readonly exchanges: Exchanges;
  readonly addressOf: GrpcCallParts['addressOf'];
  readonly statusOf: (error: ServiceError, requestId: string) => FailedStatus;
  readonly context: CodecContext;
  readonly log: Log;
}

/** The names of an operation's messages, in full. */
export interface MessageNames {
  readonly request: string;
  readonly response: string;
}

/** Compiles the handler of one operation: from the message to the table's form, through the door, and back. */
export function unaryHandler<Engine>(
  operation: Operation<Engine>,
  names: MessageNames,
  parts: UnaryParts<Engine>,
): handleUnaryCall<object | Malformed, object> {
  const { context, log } = parts;
  const request = compileMessage(operation.input, names.request, context);
  const response = compileMessage(operation.output, names.response, context);

  return function handle(call, callback) {
    const { departure } = parts.exchanges.of(call.metadata);
    const read = (): unknown => {
      if (call.request instanceof Malformed) throw call.request.error;
      return request.read(call.request, '');
    };
    const door = new GrpcCall(call, { departure, read, addressOf: parts.addressOf });
    const headers = new Metadata();
    headers.set('x-request-id', door.requestId);
    const fail = (error: ServiceError): void => callback(parts.statusOf(error, door.requestId));
    const answer = (output: unknown): void => {
      call.sendMetadata(headers);
      callback(null, response.write(output) as object);
    };
    parts
      .invoke(operation, door)
      .then(answer)
      .catch((error: unknown) => {
        if (error instanceof ServiceError) return fail(error);
        // The operation has run but its caller will not have the outcome: what it was given goes back.
        departure.tell();
        log.error({ requestId: door.requestId, err: error }, 'no answer could be made');
        fail(new ServiceError('INTERNAL', 'internal error', { cause: error }));
      });
  };
}
