import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { query } from './postgres.js';
import { type Client, clientFor, until } from './service.js';

const DIST = fileURLToPath(new URL('../../', import.meta.url));
const START_MS = 40_000;

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Running {
  readonly child: ChildProcess;
  /** All it has written so far, standard output and error together. */
  output(): string;
  readonly exit: Promise<Exit>;
}

/** A service in a process of its own, on the embedded Postgres of a data directory. */
export interface ServiceProcess extends Running {
  readonly base: string;
  /** `host:port` of gRPC. */
  readonly grpc: string;
  /** With the key of the tenant `default`. */
  readonly client: Client;
  /** Its log: JSON lines, read. */
  log(): { readonly level: string; readonly msg: string }[];
}

/** A directory for one installation, with a port that stays the same from start to start. */
export interface Installation {
  readonly dataDirectory: string;
  readonly port: number;
  readonly keyFile: string;
  /** Rows of one statement in its database, while its Postgres runs. */
  sql(text: string, params?: unknown[]): Promise<any[]>;
  postgresPid(): Promise<number>;
  /** What Postgres has written. */
  postgresLog(): Promise<string>;
  remove(): Promise<void>;
}

export async function createInstallation(): Promise<Installation> {
  const dataDirectory = await mkdtemp(path.join(tmpdir(), 'stint-process-'));
  const port = await freePort();
  const postmaster = async (): Promise<string[]> =>
    (await readFile(path.join(dataDirectory, 'postgres', 'data', 'postmaster.pid'), 'utf8')).split('\n');
  return {
    dataDirectory,
    port,
    keyFile: path.join(dataDirectory, 'default-key'),
    sql: async (text, params) => {
      const password = (await readFile(path.join(dataDirectory, 'postgres-password'), 'utf8')).trim();
      return query(`postgres://stint:${password}@127.0.0.1:${(await postmaster())[3]!}/stint`, text, params);
    },
    postgresPid: async () => Number((await postmaster())[0]),
    postgresLog: () => readFile(path.join(dataDirectory, 'postgres.log'), 'utf8'),
    remove: () => rm(dataDirectory, { recursive: true, force: true, maxRetries: 10 }),
  };
}

/** Starts `node <dist>/<script> …args` in a process group of its own. */
export function runScript(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  return runProgram(process.execPath, [path.join(DIST, script), ...args], env);
}

export function runProgram(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(STINT_|NODE_TEST_CONTEXT)/.test(name));
  const child = spawn(program, args, {
    detached: true,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let written = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (written += text));
  }
  const exit = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  return { child, output: () => written, exit };
}

/** `stint serve`, not awaited: for tests of the start itself. */
export function launchService(
  { dataDirectory, port }: Installation,
  env: Readonly<Record<string, string>> = {},
): Running {
  return runScript('src/main.js', ['serve'], {
    STINT_DATA_DIR: dataDirectory,
    STINT_HTTP_PORT: String(port),
    STINT_GRPC_PORT: '0',
    ...env,
  });
}

/** `stint serve`, once it is ready. */
export async function startService(
  installation: Installation,
  env: Readonly<Record<string, string>> = {},
): Promise<ServiceProcess> {
  const running = launchService(installation, env);
  const ready = (): boolean => {
    if (running.child.exitCode !== null) throw new Error(`the service has ended: ${running.output()}`);
    return /Stint is ready at .*\n/.test(running.output());
  };
  await until('the service is ready', ready, START_MS);
  const base = `http://127.0.0.1:${installation.port}`;
  return {
    ...running,
    base,
    grpc: /gRPC at (\S+:\d+)\./.exec(running.output())![1]!,
    client: clientFor(base, (await readFile(installation.keyFile, 'utf8')).trim()),
    log: () => logOf(running.output()),
  };
}

/** The lines of a service's output that are log lines. */
export function logOf(output: string): { readonly level: string; readonly msg: string }[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as { level: string; msg: string });
}

/** Sends a signal and answers how and after how many milliseconds the process has ended. */
export async function endWith(
  running: Running,
  signal: NodeJS.Signals,
  target: 'process' | 'group' = 'process',
): Promise<Exit & { readonly took: number }> {
  const started = performance.now();
  if (!isAlive(running.child.pid!)) throw new Error(`the process has ended before: ${running.output()}`);
  process.kill(target === 'group' ? -running.child.pid! : running.child.pid!, signal);
  return { ...(await running.exit), took: performance.now() - started };
}

/** Whether a process of that id runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    // ESRCH: there is none.
    return false;
  }
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as { port: number };
  probe.close();
  await once(probe, 'close');
  return port;
}
