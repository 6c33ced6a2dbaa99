import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { startEmbedded } from '../../src/db/embedded.js';

/** Beside the service's own settings for its embedded Postgres: memory for the load, sessions for two services and ourselves. */
const SETTINGS = { max_connections: 200, shared_buffers: '1GB', wal_buffers: '32MB', max_wal_size: '8GB' };

const SHOWN = [
  ...['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'shared_buffers', 'wal_buffers'],
  ...['max_wal_size', 'checkpoint_timeout', 'wal_compression', 'max_connections', 'autovacuum_naptime', 'jit'],
];

/** A Postgres for one run of the benchmark, in a directory of its own. */
export interface BenchPostgres {
  /** Of the postmaster. */
  readonly pid: number;
  /** What decides about its speed. */
  readonly settings: Readonly<Record<string, string>>;
  /** Makes an empty database, in place of the one of that name if there is one, and answers its URL. */
  createDatabase(name: string): Promise<string>;
  dropDatabase(name: string): Promise<void>;
  /** Bytes of WAL written since it was set up. */
  walBytes(): Promise<number>;
  /** Stops it and removes its directory. */
  stop(): Promise<void>;
}

export async function startPostgres(): Promise<BenchPostgres> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-bench-'));
  const remove = () => rm(directory, { recursive: true, force: true, maxRetries: 10 });
  try {
    const log = pino({ level: 'silent' });
    const server = await startEmbedded({ dataDirectory: directory, settings: SETTINGS, log });
    const url = (database: string): string => Object.assign(new URL(server.url), { pathname: `/${database}` }).href;
    const admin = new pg.Client({ connectionString: url('postgres') });
    await admin.connect();
    const dropDatabase = async (name: string): Promise<void> => {
      await admin.query(`drop database if exists ${name} with (force)`);
    };
    return {
      pid: Number((await readFile(path.join(directory, 'postgres/data/postmaster.pid'), 'utf8')).split('\n')[0]),
      settings: await settingsOf(admin),
      dropDatabase,
      createDatabase: async (name) => {
        await dropDatabase(name);
        await admin.query(`create database ${name}`);
        return url(name);
      },
      walBytes: async () => {
        const { rows } = await admin.query<{ bytes: string }>(
          `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as bytes`,
        );
        return Number(rows[0]!.bytes);
      },
      stop: async () => {
        await admin.end();
        await server.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function settingsOf(client: pg.Client): Promise<Record<string, string>> {
  const { rows } = await client.query<{ name: string; value: string }>(
    `select name, current_setting(name) as value from pg_settings where name = any($1::text[]) order by name`,
    [SHOWN],
  );
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
