import { access, readFile } from 'node:fs/promises';
import path from 'node:path';
import { ownedDirectory, SUPERUSER } from './embedded-directory.js';
import { isRunning } from './embedded-lock.js';

/** Lines of `postmaster.pid`, counted from 0. */
const PID_LINE = 0;
const PORT_LINE = 3;
const STATUS_LINE = 7;

/**
 * Where the Postgres of a data directory can be reached, whoever started it; undefined while it does not run. Changes nothing.
 * Throws an Error in plain words when there is no database in the directory.
 */
export async function findRunning(dataDirectory: string): Promise<string | undefined> {
  const cluster = path.join(ownedDirectory(dataDirectory), 'data');
  try {
    await access(path.join(cluster, 'PG_VERSION'));
  } catch (error) {
    throw new Error(`there is no database in ${dataDirectory}: set STINT_DATA_DIR or STINT_DATABASE_URL`, {
      cause: error,
    });
  }
  // It is there for as long as Postgres runs, or was there when it was killed.
  const written = await readFile(path.join(cluster, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = written.split('\n');
  const pid = Number(lines[PID_LINE]);
  if (!(pid > 0) || lines[STATUS_LINE]?.trim() !== 'ready' || !(await isRunning(pid))) return undefined;
  const password = (await readFile(path.join(dataDirectory, 'postgres-password'), 'utf8')).trim();
  return `postgres://${SUPERUSER}:${password}@127.0.0.1:${lines[PORT_LINE]!}/stint`;
}
