/** Every code that a caller can see, with what each transport makes of it. The only place that knows a status. */
export const ERROR_CODES = {
  INVALID_ARGUMENT: { http: 400, grpc: 'INVALID_ARGUMENT', title: 'Invalid argument' },
  UNAUTHENTICATED: { http: 401, grpc: 'UNAUTHENTICATED', title: 'Unauthenticated' },
  PERMISSION_DENIED: { http: 403, grpc: 'PERMISSION_DENIED', title: 'Permission denied' },
  NOT_FOUND: { http: 404, grpc: 'NOT_FOUND', title: 'Not found' },
  METHOD_NOT_ALLOWED: { http: 405, grpc: 'UNIMPLEMENTED', title: 'Method not allowed' },
  REQUEST_TIMEOUT: { http: 408, grpc: 'DEADLINE_EXCEEDED', title: 'Request timeout' },
  LEASE_LOST: { http: 409, grpc: 'FAILED_PRECONDITION', title: 'Lease lost' },
  CONFLICT: { http: 409, grpc: 'FAILED_PRECONDITION', title: 'Conflict' },
  IDEMPOTENCY_KEY_REUSED: { http: 409, grpc: 'ALREADY_EXISTS', title: 'Idempotency key reused' },
  PAYLOAD_TOO_LARGE: { http: 413, grpc: 'INVALID_ARGUMENT', title: 'Payload too large' },
  UNSUPPORTED_MEDIA_TYPE: { http: 415, grpc: 'INVALID_ARGUMENT', title: 'Unsupported media type' },
  QUOTA_EXCEEDED: { http: 429, grpc: 'RESOURCE_EXHAUSTED', title: 'Quota exceeded' },
  RATE_LIMITED: { http: 429, grpc: 'RESOURCE_EXHAUSTED', title: 'Rate limited' },
  BACKLOG_FULL: { http: 429, grpc: 'RESOURCE_EXHAUSTED', title: 'Backlog full' },
  HEADERS_TOO_LARGE: { http: 431, grpc: 'INVALID_ARGUMENT', title: 'Headers too large' },
  INTERNAL: { http: 500, grpc: 'INTERNAL', title: 'Internal error' },
  UNAVAILABLE: { http: 503, grpc: 'UNAVAILABLE', title: 'Unavailable' },
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

/** What is wrong with one field of a request: its path (`jobs[1].queue`) and, in words, the limit it breaks. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

export interface ServiceErrorDetails {
  readonly fields?: readonly FieldError[];
  /** Seconds after which the same call may go through; sent as `Retry-After`. */
  readonly retryAfter?: number;
  /** Further members of the problem document, for instance `settledAs`. */
  readonly extra?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** The one error that domain code throws: a code of `ERROR_CODES`, a sentence for people, and the fields at fault. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly fields: readonly FieldError[];
  readonly retryAfter: number | undefined;
  readonly extra: Readonly<Record<string, string>>;

  constructor(
    readonly code: ErrorCode,
    message: string,
    details: ServiceErrorDetails = {},
  ) {
    super(message, { cause: details.cause });
    this.fields = details.fields ?? [];
    this.retryAfter = details.retryAfter;
    this.extra = details.extra ?? {};
  }
}

/** An `INVALID_ARGUMENT` about one field. */
export function invalidField(field: string, message: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENT', `${field} ${message}`, { fields: [{ field, message }] });
}
