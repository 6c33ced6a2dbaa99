import { appendFile, rename, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { Logger } from 'pino';

export type Log = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>;

/** What each line begins with: time, process, SQLSTATE. */
export const LINE_PREFIX = '%m [%p] %e ';
const LINE = /^\S+ \S+ \S+ \[\d+\] (?<state>\w{5}) (?<severity>[A-Z]+\d?): {2}(?<text>.*)$/;
/** Refused while it starts, refused or ended while it stops: not news. */
const EXPECTED_STATES = new Set(['57P01', '57P03']);
const LEVELS = new Map<string, 'warn' | 'error'>([
  ['WARNING', 'warn'],
  ['ERROR', 'warn'],
  ['FATAL', 'error'],
  ['PANIC', 'error'],
]);
const FILE_LIMIT_BYTES = 8 * 1024 * 1024;
const RECENT_LINES = 50;

/** What Postgres writes on its stderr, kept in a bounded file; warnings and worse go to the service's log. */
export interface PostgresLog {
  /** The newest lines, oldest first. */
  readonly recent: readonly string[];
  readonly ended: Promise<void>;
}

/** Copies `source` to `file` until it ends. The file and its predecessor `file.1` stay below 8 MiB each. */
export function keepLog(source: Readable, file: string, log: Log): PostgresLog {
  const recent: string[] = [];
  let kept = true;
  const append = boundedFile(file);
  const ended = readLines(source, {
    chunk: async (text) => {
      if (kept)
        await append(text).catch((error: unknown) => {
          kept = false;
          log.warn({ err: error, file }, 'the log of Postgres is kept no longer');
        });
    },
    line: (line) => {
      recent.push(line);
      if (recent.length > RECENT_LINES) recent.shift();
      report(line, log);
    },
  });
  return { recent, ended };
}

function report(line: string, log: Log): void {
  const { state = '', severity = '', text = '' } = LINE.exec(line)?.groups ?? {};
  const level = LEVELS.get(severity);
  if (level !== undefined && !EXPECTED_STATES.has(state))
    log[level]({ severity, sqlstate: state }, `postgres: ${text}`);
}

/** Reads to the end whatever happens to the file: a pipe that nobody reads would stop Postgres. */
async function readLines(
  source: Readable,
  take: { chunk: (text: string) => Promise<void>; line: (line: string) => void },
): Promise<void> {
  let rest = '';
  for await (const text of source.setEncoding('utf8') as AsyncIterable<string>) {
    await take.chunk(text);
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) take.line(line);
  }
}

function boundedFile(file: string): (text: string) => Promise<void> {
  let size: number | undefined;
  return async (text) => {
    size ??= await sizeOf(file);
    const added = Buffer.byteLength(text);
    if (size > 0 && size + added > FILE_LIMIT_BYTES) {
      await rename(file, `${file}.1`);
      size = 0;
    }
    await appendFile(file, text, { mode: 0o600 });
    size += added;
  };
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    (found) => found.size,
    () => 0,
  );
}
