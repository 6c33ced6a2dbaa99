import { type DestinationStream, type Logger, pino } from 'pino';

/** The service's log: JSON lines, one event each, with an ISO time. Fields before the message: `log.info({ queue }, 'paused')`. */
export type Log = Logger;

const SECRET_FIELDS = ['authorization', 'secret', 'password', 'payload', 'result'];

/** Postgres repeats the offending row in these fields of its errors, and a row holds a payload. */
const ERROR_FIELDS = ['err.detail', 'err.where', 'err.internalQuery'];

/**
 * A log of its own for each service.
 * @param level `trace`, `debug`, `info`, `warn`, `error`, `fatal` or `silent`; anything else throws.
 * @param destination Where lines go; standard output unless given.
 */
export function createLog(level: string, destination?: DestinationStream): Log {
  const options = {
    level,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    redact: { paths: [...SECRET_FIELDS.flatMap(atThreeDepths), ...ERROR_FIELDS], censor: '[redacted]' },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

function atThreeDepths(field: string): string[] {
  return [field, `*.${field}`, `*.*.${field}`];
}
