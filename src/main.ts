#!/usr/bin/env -S node --max-semi-space-size=64 --v8-pool-size=1
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { check } from './check.js';
import { type Config, loadConfig } from './config.js';
import { startEmbedded } from './db/embedded.js';
import { migrate } from './db/migrate.js';
import { createLog, type Log } from './observability/log.js';
import { relayCommand } from './relay-command.js';
import { startService } from './service.js';
import { version } from './version.js';

const HELP = `Usage: stint <command>

  serve      start the service: migrate the database, then serve until SIGINT or SIGTERM
  migrate    bring the database up to this version, and end
  check      look whether everything in the database is as it must be: exit code 0 when it is, 1 when not, 2 when it cannot
             be told; changes nothing, may run beside the service

  relay              ship jobs from an outbox in an application's database to a Stint, until SIGINT or SIGTERM
  relay install      make the outbox in that database, and end
  relay ddl          print the SQL that makes it, for migrations of your own
  relay retry <key>  send the parked row of that key again, or all of them: relay retry all

  --json     of check: one JSON document
  --version  print the version
  --help     print this

Configuration comes from environment variables that begin with STINT_; see docs/configuration.md.
`;

const exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  process.stderr.write(`stint: ${sentenceOf(error)}\n`);
  return process.argv.slice(2).includes('check') ? 2 : 1;
});
process.exit(exitCode);

/** Answers the exit code. */
async function main(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: { version: { type: 'boolean' }, help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } },
  });
  if (values.help === true) return print(HELP);
  if (values.version === true) return print(`${version()}\n`);
  const [command, ...rest] = positionals;
  const json = values.json === true;
  if (rest.length === 0 && command === 'check') {
    endAtSignal();
    return check(loadConfig(undefined, { needsAdminKey: false }), { json, write: print });
  }
  if (json) throw new Error('--json is of check (--help)');
  if (command === 'relay') return relayCommand(rest, { write: print, untilAsked });
  if (rest.length === 0 && command === 'serve') return serve(loadConfig());
  if (rest.length === 0 && command === 'migrate') return migrateOnly(loadConfig(undefined, { needsAdminKey: false }));
  throw new Error(
    command === undefined
      ? 'give a command: serve, migrate, check or relay (--help)'
      : `no such command: ${positionals.join(' ')} (--help)`,
  );
}

/** Serves until the first signal; a further one changes nothing, since what is under way must become durable. */
async function serve(config: Config): Promise<number> {
  const log = createLog(config.logLevel);
  const asked = untilAsked(log);
  const late = asked.then(() => pause(config.drainSeconds * 1_000, undefined, { ref: false }));
  let cutShort = false;
  void asked.then(() => (cutShort = true));
  const starting = startService(config, log).catch((error: unknown) => {
    // A Ctrl-C also reaches the programs that a first start runs, so their failing then is no failure of ours.
    if (!cutShort) throw error;
    log.warn({ err: error }, 'the start was cut short');
    return undefined;
  });
  const service = await Promise.race([starting, late]);
  // A start that takes longer than that is cut short: it does nothing that an exit half-way could leave broken.
  if (service === undefined) return 0;
  print(`${service.greeting.trimEnd()}\n`);
  const outgrown = await Promise.race([asked, service.outgrown]);
  if (outgrown !== undefined) log.error({ reason: outgrown.message }, 'stopping');
  await service.stop();
  if (outgrown !== undefined) throw outgrown;
  return 0;
}

/** Resolves at the first SIGINT or SIGTERM. */
async function untilAsked(log: Log): Promise<void> {
  return new Promise((resolve) => {
    let stopping = false;
    const onSignal = (signal: string): void => {
      if (stopping) return log.warn({ signal }, 'already stopping: calls under way are being finished');
      stopping = true;
      log.info({ signal }, 'stopping');
      resolve();
    };
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
  });
}

/** For what may be cut off anywhere: no signal ends the first process of a container that does not handle it. */
function endAtSignal(): void {
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
}

async function migrateOnly(config: Config): Promise<number> {
  endAtSignal();
  const log = createLog(config.logLevel);
  const embedded =
    config.databaseUrl === undefined ? await startEmbedded({ dataDirectory: config.dataDirectory, log }) : undefined;
  try {
    const { applied } = await migrate(config.databaseUrl ?? embedded!.url, { log });
    return print(applied.length === 0 ? 'The database is up to date.\n' : `Applied ${applied.join(', ')}.\n`);
  } finally {
    await embedded?.stop();
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function sentenceOf(error: unknown): string {
  const { code, port } = error as { code?: string; port?: number };
  if (code === 'UNAVAILABLE' && error instanceof Error && error.cause !== undefined) {
    return `${error.message}: ${sentenceOf(error.cause)}`;
  }
  if (code === 'EADDRINUSE') return `port ${port ?? ''} is in use by another program: choose another`;
  if (error instanceof AggregateError) return error.errors.map(sentenceOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
