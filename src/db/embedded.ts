import { mkdir, realpath } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { accountFor } from './embedded-account.js';
import { findBinaries } from './embedded-binaries.js';
import { ownedDirectory, prepareCluster, SUPERUSER } from './embedded-directory.js';
import { lockDirectory } from './embedded-lock.js';
import { keepLog, LINE_PREFIX, type Log } from './embedded-log.js';
import { type ServerProcess, settledWithin, spawnServer, type SpawnParts, stopLeftOver } from './embedded-process.js';
import { keepRunning } from './embedded-watch.js';

const DATABASE = 'stint';
const START_DEADLINE_MS = 30_000;
const POLL_MS = 100;

type Settings = Readonly<Record<string, string | number>>;

export interface EmbeddedOptions {
  /** Made if missing. Holds the cluster, its password, its log and the lock of the service that uses it. */
  readonly dataDirectory: string;
  /** A free one is chosen at each start unless given. */
  readonly port?: number;
  /** Postgres settings that differ from ours. */
  readonly settings?: Settings;
  readonly log: Log;
  /** A Postgres distribution (`bin`, `lib`, `share`) to use in place of the npm package's. */
  readonly home?: string;
}

export interface EmbeddedPostgres {
  /** For the superuser `stint` and the database `stint`, password included. */
  readonly url: string;
  readonly port: number;
  /** Whether a Postgres left running by a killed service was stopped first. */
  readonly replaced: boolean;
  /** Stops Postgres (fast shutdown; harder after 10 s) and gives the data directory back. */
  stop(): Promise<void>;
}

const SETTINGS: Settings = {
  max_connections: 100,
  shared_buffers: '256MB',
  wal_buffers: '16MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  wal_compression: 'on',
  jit: 'off',
  autovacuum_naptime: '10s',
  autovacuum_vacuum_cost_delay: 0,
  random_page_cost: 1.1,
  idle_in_transaction_session_timeout: '30s',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** What no caller may change: only this machine reaches it, and its log is readable to us. */
const FIXED: Settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_line_prefix: LINE_PREFIX,
};

/**
 * Starts a PostgreSQL of the service's own on a data directory and waits until it takes connections. Works as root (it
 * then runs as another user) and as a normal user. One that ends by itself is started again, on the same port. Throws an Error in plain words when the directory is in use by another
 * service or was made by another major version, or when something stands in Postgres's way.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  await mkdir(options.dataDirectory, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    const what = `STINT_DATA_DIR is ${options.dataDirectory}, which is no directory and cannot be made one`;
    throw new Error(`${what} (${(error as Error).message}): give a directory`, { cause: error });
  });
  const dataDirectory = await realpath(options.dataDirectory);
  const lock = await lockDirectory(dataDirectory);
  try {
    const binaries = await findBinaries(options.home);
    const account = await accountFor(ownedDirectory(dataDirectory));
    const cluster = await prepareCluster({ dataDirectory, binaries, account });
    if (cluster.opened.length > 0) {
      options.log.info({ directories: cluster.opened }, 'gave other users search permission, for Postgres');
    }
    const parts = { binaries, account, directory: cluster.directory, settings: {} };
    const replaced = await stopLeftOver(parts);
    if (replaced) options.log.warn('stopped a Postgres that a killed service had left running');
    const given = { options, password: cluster.password, dataDirectory };
    const { server, port } = await launch(parts, given);
    const restart = () => launch(parts, { ...given, options: { ...options, port } });
    const stopServer = keepRunning(server, async () => (await restart()).server, options.log);
    const stop = once(async () => {
      await stopServer();
      await lock.release();
    });
    return { url: urlOf(cluster.password, port), port, replaced, stop };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

interface Launch {
  readonly options: EmbeddedOptions;
  readonly password: string;
  readonly dataDirectory: string;
}

/** A free port may be taken by somebody else, and killed backends may hold the old memory for a moment: tried again. */
const PASSING =
  /could not bind|Address already in use|pre-existing shared memory block|lock file "postmaster.pid" already exists/;

async function launch(parts: SpawnParts, given: Launch): Promise<{ server: ServerProcess; port: number }> {
  for (const deadline = Date.now() + START_DEADLINE_MS; ;) {
    const port = given.options.port ?? (await freePort());
    const settings = { ...SETTINGS, ...given.options.settings, ...FIXED, port };
    const server = spawnServer({ ...parts, settings });
    const written = keepLog(server.child.stderr!, path.join(given.dataDirectory, 'postgres.log'), given.options.log);
    try {
      await untilReady(server, { password: given.password, port });
      await createDatabase(urlOf(given.password, port, 'postgres'));
      return { server, port };
    } catch (error) {
      const died = server.ended();
      await server.stop();
      await settledWithin(written.ended, 1_000);
      const said = written.recent.join('\n');
      const taken = /Address already in use|could not bind/.test(said);
      if (taken && given.options.port !== undefined) {
        throw new Error(`Postgres did not start: port ${port} is in use`, { cause: error });
      }
      if (died && (taken || PASSING.test(said)) && Date.now() < deadline) {
        await pause(POLL_MS);
        continue;
      }
      throw new Error(`Postgres did not start: ${causeIn(written.recent) ?? messageOf(error)}`, { cause: error });
    }
  }
}

/** While it recovers it says so and is given all the time it needs. */
async function untilReady(server: ServerProcess, at: { password: string; port: number }): Promise<void> {
  let deadline = Date.now() + START_DEADLINE_MS;
  for (;;) {
    if (server.ended()) throw new Error('it ended at once');
    try {
      const answer = withClient(urlOf(at.password, at.port, 'postgres'), (client) => client.query('select 1'));
      await Promise.race([answer, server.end]);
      if (!server.ended()) return;
    } catch (error) {
      const { code } = error as { code?: string };
      if (code === '28P01') throw new Error('it refuses the password kept in the data directory', { cause: error });
      if (code === '57P03') deadline = Date.now() + START_DEADLINE_MS;
      if (Date.now() > deadline) throw error;
    }
    await pause(POLL_MS);
  }
}

async function createDatabase(url: string): Promise<void> {
  await withClient(url, async (client) => {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [DATABASE]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
  });
}

async function withClient(url: string, use: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  // Without a listener a connection that breaks would end the process; the call under way fails by itself.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await use(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

function urlOf(password: string, port: number, database = DATABASE): string {
  return `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/${database}`;
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() =>
        typeof address === 'object' && address !== null ? resolve(address.port) : reject(new Error('no free port')),
      );
    });
  });
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  return () => (running ??= run());
}

function causeIn(lines: readonly string[]): string | undefined {
  return (
    lines.findLast((line) => /(FATAL|PANIC): {2}/.test(line))?.replace(/^.*?(FATAL|PANIC): {2}/, '') ?? lines.at(-1)
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== ''
    ? error.message
    : String((error as { code?: string }).code ?? error);
}
