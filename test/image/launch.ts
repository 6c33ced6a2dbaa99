import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { stage, words } from './dockerfile.js';

/** The user and group of the images. */
const OWN = { uid: 10_001, gid: 10_001 };

export interface Launched {
  readonly child: ChildProcess;
  /** All it has written so far. */
  readonly output: () => string;
  /** The exit code, null when a signal has ended it. */
  readonly exit: Promise<number | null>;
}

/**
 * Starts what an image of the Dockerfile would start: its entry point with these arguments, its variables and no others, in its folder under
 * `folder`, as its user where this process may become another.
 */
export function launch(
  name: 'stint' | 'worker',
  { folder, args, env }: { folder: string; args?: readonly string[]; env: Readonly<Record<string, string>> },
): Launched {
  const entry = words(stage(name), 'ENTRYPOINT').map((word) => word.replace(`/opt/${name}`, path.join(folder, name)));
  return start([...entry, ...(args ?? words(stage(name), 'CMD'))], path.join(folder, name), env);
}

/** Runs the image's health check, and answers its exit code. */
export async function healthCheck(folder: string, env: Readonly<Record<string, string>>): Promise<number | null> {
  return start(words(stage('stint'), 'HEALTHCHECK'), path.join(folder, 'stint'), env).exit;
}

/** As in an image: nothing is inherited but where programs are. */
export function start(command: readonly string[], cwd: string, env: Readonly<Record<string, string>>): Launched {
  const programs = [path.join(cwd, 'bin'), path.dirname(process.execPath), '/usr/bin', '/bin'].join(path.delimiter);
  const child = spawn(command[0]!, command.slice(1), {
    cwd,
    env: { PATH: programs, HOME: '/nonexistent', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(mayBeOther() ? OWN : {}),
  });
  let written = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (written += text));
  }
  return { child, output: () => written, exit: once(child, 'close').then(([code]) => code as number | null) };
}

/** Whether programs can be started as the images' user: root can, unless Node is where only root may look. */
function mayBeOther(): boolean {
  return process.getuid?.() === 0 && spawnSync(process.execPath, ['--version'], OWN).status === 0;
}
