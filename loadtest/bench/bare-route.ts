import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Target } from './messages.js';
import { NODE_FLAGS } from './node-flags.js';

const PROGRAM = fileURLToPath(new URL('./bare-route-process.js', import.meta.url));

export interface BareRoute {
  readonly target: Target;
  readonly pid: number;
  readonly stop: () => Promise<void>;
}

/** A server that does nothing but validate, in a process of its own. */
export async function startBareRoute(): Promise<BareRoute> {
  const child: ChildProcess = fork(PROGRAM, {
    execArgv: [...NODE_FLAGS],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit');
  const [{ port }] = (await Promise.race([
    once(child, 'message'),
    ended.then(() => {
      throw new Error('the bare route did not start');
    }),
  ])) as [{ port: number }];
  return {
    target: { bases: [`http://127.0.0.1:${port}`], key: 'none' },
    pid: child.pid!,
    stop: async () => {
      child.disconnect();
      await ended;
    },
  };
}
