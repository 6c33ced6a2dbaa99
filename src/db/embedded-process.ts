import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFile, readlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Account } from './embedded-account.js';
import { type Binaries, childEnvironment } from './embedded-binaries.js';
import { idsOf } from './embedded-directory.js';
import { isRunning } from './embedded-lock.js';

const execute = promisify(execFile);
const FAST_STOP_MS = 10_000;
const IMMEDIATE_STOP_MS = 5_000;
const POLL_MS = 50;

/** A Postgres of ours, running or not. */
export interface ServerProcess {
  readonly child: ChildProcess;
  /** Whether it has ended. */
  ended(): boolean;
  /** Resolves when it has. */
  readonly end: Promise<void>;
  /** Fast shutdown, harder after 10 s; resolves when it has ended. */
  stop(): Promise<void>;
}

export interface SpawnParts {
  readonly binaries: Binaries;
  readonly account: Account | undefined;
  readonly directory: string;
  readonly settings: Readonly<Record<string, string | number>>;
}

/**
 * Starts Postgres in a process group of its own, so that a Ctrl-C or a signal to the whole group reaches the service
 * only, which then stops Postgres last. It does not keep the event loop alive, and it is told to stop when this process
 * exits without having stopped it.
 */
export function spawnServer(parts: SpawnParts): ServerProcess {
  const args = ['-D', parts.directory];
  for (const [name, value] of Object.entries(parts.settings)) args.push('-c', `${name}=${value}`);
  const child = spawn(parts.binaries.postgres, args, {
    cwd: parts.directory,
    detached: true,
    env: childEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
    ...idsOf(parts.account),
  });
  let ended = false;
  const onExit = (): void => void child.kill('SIGINT');
  process.once('exit', onExit);
  const end = new Promise<void>((resolve) => {
    const settle = (): void => {
      ended = true;
      process.removeListener('exit', onExit);
      resolve();
    };
    child.once('exit', settle);
    child.once('error', settle);
  });
  letGo(child);
  const stop = async (): Promise<void> => {
    if (ended) return;
    child.ref();
    await stopByStages(parts, {
      signal: (name) => void child.kill(name),
      gone: (ms) => settledWithin(end, ms),
    });
  };
  return { child, ended: () => ended, end, stop };
}

function letGo(child: ChildProcess): void {
  child.unref();
  (child.stderr as (NodeJS.ReadableStream & { unref?: () => void }) | null)?.unref?.();
}

/**
 * Stops a Postgres that a killed service left running on `directory`; answers whether there was one. It is stopped rather
 * than taken over: it may run with older settings, nobody reads its log, sessions of the dead service may still be at work
 * in it, and only a parent learns that it died. A fast shutdown loses nothing that was committed.
 */
export async function stopLeftOver(parts: Omit<SpawnParts, 'settings' | 'account'>): Promise<boolean> {
  const pid = await postmasterOf(parts.directory);
  if (pid === undefined) return false;
  await stopByStages(parts, {
    signal: (name) => {
      try {
        process.kill(pid, name);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    },
    gone: (ms) => goneWithin(pid, ms),
  });
  return true;
}

interface Target {
  signal(name: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): void;
  gone(ms: number): Promise<boolean>;
}

/** Windows has no such signals: there pg_ctl speaks to Postgres. */
async function stopByStages(parts: Pick<SpawnParts, 'binaries' | 'directory'>, target: Target): Promise<void> {
  if (process.platform === 'win32') {
    await execute(parts.binaries.pgCtl, ['stop', '-D', parts.directory, '-m', 'fast', '-w']);
    return;
  }
  target.signal('SIGINT');
  if (await target.gone(FAST_STOP_MS)) return;
  target.signal('SIGQUIT');
  if (await target.gone(IMMEDIATE_STOP_MS)) return;
  target.signal('SIGKILL');
  if (!(await target.gone(IMMEDIATE_STOP_MS))) throw new Error(`Postgres on ${parts.directory} cannot be stopped`);
}

/** Keeps the event loop alive for as long as it waits, and no longer. */
export async function settledWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  const over = new AbortController();
  const deadline = pause(ms, false, { signal: over.signal }).catch(() => false);
  try {
    return await Promise.race([promise.then(() => true), deadline]);
  } finally {
    over.abort();
  }
}

async function goneWithin(pid: number, ms: number): Promise<boolean> {
  for (const deadline = Date.now() + ms; await isRunning(pid);) {
    if (Date.now() > deadline) return false;
    await pause(POLL_MS);
  }
  return true;
}

/** The live postmaster of `directory`. A pid file left by a crash may name a process that has nothing to do with it. */
async function postmasterOf(directory: string): Promise<number | undefined> {
  const file = path.join(directory, 'postmaster.pid');
  const content = await readFile(file, 'utf8').catch(() => '');
  const pid = Number(content.split('\n')[0]);
  if (!Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid || !(await isRunning(pid))) return undefined;
  if (await worksIn(pid, directory)) return pid;
  // Postgres would take the stranger for a rival and refuse. It ignores the id of its own parent, and still makes sure
  // by the rest of the file that no process is attached to the old memory, which removing the file would prevent.
  await writeFile(file, content.replace(/^\d+/, String(process.pid)));
  return undefined;
}

async function worksIn(pid: number, directory: string): Promise<boolean> {
  if (process.platform === 'linux') {
    const where = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
    return where === directory;
  }
  if (process.platform === 'win32') return true;
  const { stdout } = await execute('ps', ['-o', 'command=', '-p', String(pid)], { env: childEnvironment() });
  return stdout.includes(directory);
}
