import { execFile } from 'node:child_process';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import { startEmbedded } from '../../src/db/embedded.js';

const execute = promisify(execFile);

export interface TestServer {
  /** For a superuser and a database to create others from. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A Postgres in a temporary directory, of the npm package's binaries or of those in `home`. */
export async function startTestServer(home?: string): Promise<TestServer> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-test-'));
  const remove = () => rm(directory, { recursive: true, force: true, maxRetries: 10 });
  const fsync = process.env['STINT_TEST_FSYNC'] === 'on' ? 'on' : 'off';
  const settings = { fsync, max_connections: 400, shared_buffers: '256MB', max_wal_size: '1GB' };
  try {
    const options = { dataDirectory: directory, settings, log: pino({ level: 'silent' }) };
    const server = await startEmbedded(home === undefined ? options : { ...options, home });
    return {
      url: server.url,
      stop: async () => {
        await server.stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Where PostgreSQL 15, the oldest one supported, is installed on this machine; undefined when it is not. */
export async function findPostgres15(): Promise<string | undefined> {
  for (const home of ['/usr/lib/postgresql/15', '/usr/pgsql-15', '/opt/homebrew/opt/postgresql@15']) {
    const found = await access(path.join(home, 'bin', 'postgres')).then(
      () => true,
      () => false,
    );
    if (found) return home;
  }
  return onPath();
}

async function onPath(): Promise<string | undefined> {
  try {
    const { stdout } = await execute('pg_config', ['--version', '--bindir']);
    const [bindir = '', version = ''] = stdout.trim().split('\n').reverse();
    return / 15(\.|$)/.test(version) ? path.dirname(bindir) : undefined;
  } catch {
    // No pg_config: no installation.
    return undefined;
  }
}
