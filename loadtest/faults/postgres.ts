import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { startEmbedded } from '../../src/db/embedded.js';
import { mountSmallDisk, type SmallDisk } from './small-disk.js';

const DATABASE = 'faults';
const START_MS = 30_000;

/** The run's Postgres: fsync on, started again by itself when it was killed, its tables on a disk that can be filled where there is one. */
export interface FaultyPostgres {
  readonly url: string;
  readonly disk: SmallDisk | undefined;
  /** Rows of one statement, on a connection of its own, past the proxies. */
  sql<R extends pg.QueryResultRow>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /** A connection of its own whose end ends nothing else. */
  connect(): Promise<pg.Client>;
  /** kill -9 of the postmaster, of its children too if wanted. */
  kill(children: boolean): Promise<void>;
  /** Resolves when it takes connections. */
  untilUp(): Promise<void>;
  stop(): Promise<void>;
}

export async function startPostgres(directory: string): Promise<FaultyPostgres> {
  const dataDirectory = path.join(directory, 'postgres');
  const settings = { max_connections: 90, max_wal_size: '1GB', log_min_messages: 'fatal' };
  const log = pino(
    { level: 'warn' },
    pino.destination({ dest: path.join(directory, 'postgres-watch.log'), sync: true }),
  );
  const server = await startEmbedded({ dataDirectory, settings, log });
  const cluster = path.join(dataDirectory, 'postgres', 'data');
  const disk = await mountSmallDisk(path.join(directory, 'small-disk'), cluster);
  const url = new URL(server.url);
  url.pathname = `/${DATABASE}`;
  await withClient(server.url, async (client) => {
    if (disk !== undefined) await client.query(`create tablespace small location '${disk.directory}'`);
    await client.query(`create database ${DATABASE}${disk === undefined ? '' : ' tablespace small'}`);
  });
  const connect = () => open(url.href);
  return {
    url: url.href,
    disk,
    connect,
    sql: <R extends pg.QueryResultRow>(text: string, values: readonly unknown[] = []) =>
      withClient(url.href, async (client) => (await client.query<R>(text, [...values])).rows),
    kill: (children) => kill(cluster, children),
    untilUp: () => untilUp(connect),
    stop: async () => {
      await server.stop();
      await disk?.remove();
    },
  };
}

async function kill(cluster: string, children: boolean): Promise<void> {
  const postmaster = Number((await readFile(path.join(cluster, 'postmaster.pid'), 'utf8')).split('\n')[0]);
  const pids = [postmaster, ...(children ? await childrenOf(postmaster) : [])];
  for (const pid of pids) killIfThere(pid);
}

async function childrenOf(parent: number): Promise<number[]> {
  if (process.platform !== 'linux') return [];
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const parents = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
      return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
    }),
  );
  return names.filter((_, index) => parents[index] === parent).map(Number);
}

/** It may have ended since it was looked up. */
export function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function untilUp(connect: () => Promise<pg.Client>): Promise<void> {
  for (const deadline = Date.now() + START_MS; ;) {
    try {
      const client = await connect();
      await client.end();
      return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await pause(50);
    }
  }
}

async function open(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  // Without a listener a connection that breaks would end the process; the call under way fails by itself.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  return client;
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await open(url);
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
