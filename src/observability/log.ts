import { type DestinationStream, type Logger, pino } from 'pino';

/** The service's log: JSON lines, one event each, with an ISO time. Fields before the message: `log.info({ queue }, 'paused')`. */
export type Log = Logger;

const SECRET_FIELDS = ['authorization', 'secret', 'password', 'payload', 'result'];
const REDACTED = '[redacted]';

/**
 * What of an error is told beside its message, its stack and its causes. Postgres repeats the offending row in `detail` and
 * `where`, and a row holds a payload; a library may hang a whole request on an error.
 */
const ERROR_FIELDS = ['code', 'severity', 'schema', 'table', 'column', 'constraint', 'syscall', 'address', 'port'];
const MOST_CAUSES = 5;

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
    serializers: { err: (error: unknown) => described(error, MOST_CAUSES) },
    redact: { paths: SECRET_FIELDS.flatMap(atThreeDepths), censor: REDACTED },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

function atThreeDepths(field: string): string[] {
  return [field, `*.${field}`, `*.*.${field}`];
}

function described(error: unknown, mostCauses: number): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const told: Record<string, unknown> = { type: error.constructor.name, message: error.message, stack: error.stack };
  for (const field of ERROR_FIELDS) {
    const value = (error as unknown as Readonly<Record<string, unknown>>)[field];
    if (value !== undefined) told[field] = value;
  }
  if (isAboutValue(told)) hideValue(told, error.message);
  if (mostCauses === 0) return told;
  if (error.cause !== undefined) told['cause'] = described(error.cause, mostCauses - 1);
  if (error instanceof AggregateError) told['errors'] = error.errors.map((each) => described(each, mostCauses - 1));
  return told;
}

/** Postgres's "data exceptions" quote the value that they are about. */
function isAboutValue({ code, severity }: Readonly<Record<string, unknown>>): boolean {
  return typeof severity === 'string' && typeof code === 'string' && code.startsWith('22');
}

function hideValue(told: Record<string, unknown>, message: string): void {
  const hidden = message.replace(/".*"/s, REDACTED);
  told['message'] = hidden;
  told['stack'] = (told['stack'] as string | undefined)?.replace(message, () => hidden);
}
