import { loadRelayConfig } from './config.js';
import { createLog, type Log } from './observability/log.js';
import { installOutbox, outboxDdl } from './relay/install.js';
import { Outbox } from './relay/outbox.js';
import { startRelay } from './relay/run.js';

export interface RelayCommandParts {
  readonly write: (text: string) => number;
  /** Resolves when the process is asked to stop. */
  readonly untilAsked: (log: Log) => Promise<void>;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** `stint relay` and what may follow it. Answers the exit code; throws Error in plain words for whatever stands in the way. */
export async function relayCommand(args: readonly string[], parts: RelayCommandParts): Promise<number> {
  const [verb, argument, ...more] = args;
  if (verb === undefined) return run(parts);
  if (verb === 'install' && argument === undefined) return install(parts);
  if (verb === 'ddl' && argument === undefined) return parts.write(outboxDdl(loadRelayConfig('schema').schema));
  if (verb === 'retry' && more.length === 0 && argument !== undefined) return retry(argument, parts);
  throw new Error(`no such command: relay ${args.join(' ')} (--help)`);
}

async function run({ write, untilAsked }: RelayCommandParts): Promise<number> {
  const config = loadRelayConfig('all');
  const log = createLog(config.logLevel);
  const asked = untilAsked(log);
  const relay = await startRelay({ ...config, databaseUrl: config.databaseUrl!, url: config.url! }, log);
  write(`Relaying; health at http://localhost:${relay.port}/readyz\n`);
  await asked;
  await relay.stop();
  return 0;
}

async function install({ write }: RelayCommandParts): Promise<number> {
  const { databaseUrl, schema, logLevel } = loadRelayConfig('database');
  const isNew = await installOutbox(databaseUrl!, schema, createLog(logLevel, process.stderr));
  return write(isNew ? `Made the outbox ${schema}.\n` : `The outbox ${schema} is up to date.\n`);
}

async function retry(which: string, { write }: RelayCommandParts): Promise<number> {
  if (which !== 'all' && !UUID.test(which)) throw new Error(`${which} is no key of a row: give one, or all`);
  const { databaseUrl, schema } = loadRelayConfig('database');
  const outbox = new Outbox({ url: databaseUrl!, schema, onLost: () => undefined });
  try {
    const count = await outbox.retry(which === 'all' ? undefined : which);
    return write(`${count} row${count === 1 ? '' : 's'} will be sent again.\n`);
  } finally {
    await outbox.close();
  }
}
