import type { Log } from './log.js';

/** One call that is over. */
export interface LoggedCall {
  /** Name of the operation. */
  readonly operation: string;
  readonly call: { readonly requestId: string; readonly transport: 'http' | 'grpc' };
  /** `OK`, a code of the error table, or `CLIENT_CLOSED`. */
  readonly code: string;
  readonly seconds: number;
  /** Its name, where the call got as far as to show it. */
  readonly tenant: string | undefined;
  readonly span: { readonly traceId: string; readonly spanId: string } | undefined;
  /** What must not happen, whatever became of the caller meanwhile. */
  readonly error: Error | undefined;
}

/** Lines of calls that were refused, of all kinds together. */
const MOST_A_SECOND = 20;

/**
 * The line of each call. What went well is of the level `debug`; what was refused for a reason of the caller's `info`, for one of the
 * service's `warn`: of these so many a second and no more, since a caller who is refused often asks again at once, and all callers are
 * refused while the database is away. What must not happen is `error`, and always written.
 */
export class CallLog {
  #second = 0;
  #written = 0;
  #leftOut = 0;

  constructor(private readonly log: Log) {}

  write(logged: LoggedCall): void {
    const { code, error } = logged;
    if (error !== undefined) {
      this.log.error({ ...fieldsOf(logged), err: error.cause ?? error }, 'operation failed');
    } else if (code === 'OK' || code === 'CLIENT_CLOSED') {
      if (this.log.isLevelEnabled('debug')) this.log.debug(fieldsOf(logged), 'operation');
    } else this.#refused(code === 'UNAVAILABLE' ? 'warn' : 'info', logged);
  }

  #refused(level: 'warn' | 'info', logged: LoggedCall): void {
    if (!this.log.isLevelEnabled(level)) return;
    if (!this.log.isLevelEnabled('debug') && !this.#mayBeWritten()) {
      this.#leftOut += 1;
      return;
    }
    const leftOut = this.#leftOut > 0 ? this.#leftOut : undefined;
    this.#leftOut = 0;
    this.log[level]({ ...fieldsOf(logged), leftOut }, 'operation refused');
  }

  #mayBeWritten(): boolean {
    const second = Math.floor(performance.now() / 1_000);
    if (second !== this.#second) this.#written = 0;
    this.#second = second;
    this.#written += 1;
    return this.#written <= MOST_A_SECOND;
  }
}

function fieldsOf({ operation, call, code, seconds, tenant, span }: LoggedCall): object {
  const { requestId, transport } = call;
  return {
    operation,
    transport,
    requestId,
    tenant,
    outcome: code,
    seconds,
    traceId: span?.traceId,
    spanId: span?.spanId,
  };
}
