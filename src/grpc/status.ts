import { Metadata, status as STATUS } from '@grpc/grpc-js';
import { retryAfter } from '../core/retry-after.js';
import { ERROR_CODES, type ServiceError } from '../errors.js';
import type { Protos } from './protos.js';

/** What a failed call is answered with. */
export interface FailedStatus {
  readonly code: number;
  readonly details: string;
  readonly metadata: Metadata;
}

const DETAILS = 'grpc-status-details-bin';

/**
 * Compiles how gRPC says an error: its status, and in `grpc-status-details-bin` a `google.rpc.Status` with ErrorInfo (the code), BadRequest
 * (the fields at fault) and RetryInfo (when to come back).
 */
export function compileStatus(protos: Protos): (error: ServiceError, requestId: string) => FailedStatus {
  const messages = {
    Status: protos.message('google.rpc.Status'),
    ErrorInfo: protos.message('google.rpc.ErrorInfo'),
    BadRequest: protos.message('google.rpc.BadRequest'),
    RetryInfo: protos.message('google.rpc.RetryInfo'),
  };
  const packed = (name: Exclude<keyof typeof messages, 'Status'>, value: object) => ({
    type_url: `type.googleapis.com/google.rpc.${name}`,
    value: messages[name].serialize(value),
  });

  return function statusOf(error, requestId) {
    const name = ERROR_CODES[error.code].grpc;
    const code = STATUS[name];
    const text = asInProto(error.code === 'INTERNAL' ? 'internal error' : error.message);
    const details = [
      packed('ErrorInfo', { reason: error.code, domain: 'stint', metadata: { ...error.extra, requestId } }),
    ];
    if (error.fields.length > 0) {
      const fieldViolations = error.fields.map(({ field, message }) => ({
        field: asInProto(field),
        description: asInProto(message),
      }));
      details.push(packed('BadRequest', { fieldViolations }));
    }
    if (name === 'RESOURCE_EXHAUSTED' || name === 'UNAVAILABLE') {
      details.push(packed('RetryInfo', { retryDelay: { seconds: retryAfter(error.retryAfter) } }));
    }
    const metadata = new Metadata();
    metadata.set(DETAILS, messages.Status.serialize({ code, message: text, details }));
    return { code, details: text, metadata };
  };
}

/** The one name of a field that is another in REST. */
function asInProto(text: string): string {
  return text.replaceAll('payloadBase64', 'payload');
}
