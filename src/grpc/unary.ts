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

/** What stands between a call's messages and the table's form. */
export interface MessageForm {
  /** Throws INVALID_ARGUMENT. */
  read(message: object): unknown;
  write(output: unknown): object;
  /** The credential that a message brings along. */
  authorization?(message: object): string | undefined;
}

/** Compiles the handler of one operation of the contract: its messages are what its schemas say. */
export function unaryHandler<Engine>(
  operation: Operation<Engine>,
  names: MessageNames,
  parts: UnaryParts<Engine>,
): handleUnaryCall<object | Malformed, object> {
  const request = compileMessage(operation.input, names.request, parts.context);
  const response = compileMessage(operation.output, names.response, parts.context);
  const form: MessageForm = {
    read: (message) => request.read(message, ''),
    write: (output) => response.write(output) as object,
  };
  return handlerOf(operation, form, parts);
}

/** The handler of one operation: from the message to the table's form, through the door, and back. */
export function handlerOf<Engine>(
  operation: Operation<Engine>,
  form: MessageForm,
  parts: Omit<UnaryParts<Engine>, 'context'>,
): handleUnaryCall<object | Malformed, object> {
  const { log, addressOf } = parts;

  return function handle(call, callback) {
    const { request } = call;
    const { departure } = parts.exchanges.of(call.metadata);
    const read = (): unknown => {
      if (request instanceof Malformed) throw request.error;
      return form.read(request);
    };
    const authorization = request instanceof Malformed ? undefined : form.authorization?.(request);
    const door = new GrpcCall(call, { departure, read, addressOf, authorization });
    const headers = new Metadata();
    headers.set('x-request-id', door.requestId);
    const fail = (error: ServiceError): void => callback(parts.statusOf(error, door.requestId));
    const answer = (output: unknown): void => {
      call.sendMetadata(headers);
      callback(null, form.write(output));
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
