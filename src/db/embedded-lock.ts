import { execFile } from 'node:child_process';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { childEnvironment } from './embedded-binaries.js';

const execute = promisify(execFile);
const ATTEMPTS = 5;

/** Held by the one service that uses a data directory. */
export interface DirectoryLock {
  release(): Promise<void>;
}

/**
 * Takes the data directory for this process. The lock file names its holder by process id and start time, so that one
 * left by a killed service counts for nothing, even when its id has been given to another process since.
 * Throws when a live service holds it.
 */
export async function lockDirectory(directory: string): Promise<DirectoryLock> {
  const file = path.join(directory, 'service.lock');
  const own = `${process.pid}\n${(await startOf(process.pid)) ?? ''}\n`;
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, own, { mode: 0o644 });
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (await linked(draft, file)) return { release: () => release(file, own) };
      await clearStale(file);
    }
  } finally {
    await rm(draft, { force: true });
  }
  throw new Error(`other services keep taking ${directory}: give each its own STINT_DATA_DIR`);
}

async function linked(draft: string, file: string): Promise<boolean> {
  try {
    await link(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function clearStale(file: string): Promise<void> {
  const found = await contentOf(file);
  if (found === undefined) return;
  const [holder = '', started = ''] = found.split('\n');
  const pid = Number(holder);
  if (pid > 0 && (await isRunning(pid)) && (await startOf(pid)) === (started === '' ? undefined : started)) {
    const who = pid === process.pid ? 'this process already uses' : `another service (process ${pid}) uses`;
    throw new Error(
      `${who} the data directory ${path.dirname(file)}: stop it, or give this one its own STINT_DATA_DIR`,
    );
  }
  // Moved aside rather than removed: if a rival replaced it since it was read, the rival's lock is put back.
  const aside = `${file}.stale.${process.pid}`;
  await rename(file, aside).catch(() => undefined);
  const moved = await contentOf(aside);
  if (moved !== undefined && moved !== found) await linked(aside, file);
  await rm(aside, { force: true });
}

async function release(file: string, own: string): Promise<void> {
  if ((await contentOf(file)) === own) await rm(file, { force: true });
}

async function contentOf(file: string): Promise<string | undefined> {
  return readFile(file, 'utf8').catch(() => undefined);
}

/** Whether a process of this id runs, whoever owns it; one that ended and waits to be reaped does not. */
export async function isRunning(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  if (process.platform !== 'linux') return true;
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') Z');
  return !fieldsAfterName(status).startsWith('Z');
}

/** Tells a process from a later one of the same id; undefined where the system does not say. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    if (process.platform === 'linux') return await startOnLinux(pid);
    if (process.platform === 'win32') return undefined;
    const { stdout } = await execute('ps', ['-o', 'lstart=', '-p', String(pid)], { env: childEnvironment() });
    return stdout.trim();
  } catch {
    // The process ended meanwhile.
    return undefined;
  }
}

async function startOnLinux(pid: number): Promise<string> {
  const [status, boot] = await Promise.all([
    readFile(`/proc/${pid}/stat`, 'utf8'),
    readFile('/proc/sys/kernel/random/boot_id', 'utf8'),
  ]);
  const START_AFTER_NAME = 19;
  return `${boot.trim()} ${fieldsAfterName(status).split(' ')[START_AFTER_NAME] ?? ''}`;
}

/** The command's name may itself hold spaces and brackets. */
function fieldsAfterName(status: string): string {
  return status.slice(status.lastIndexOf(')') + 2);
}
