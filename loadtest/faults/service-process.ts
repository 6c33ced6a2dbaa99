import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url));
const PRELOADS = ['./stepped-clock.js', './planted.js'].map((file) => new URL(file, import.meta.url).href);
const RESTART_MS = 500;
const WATCH_MS = 250;

export interface ServiceOptions {
  readonly name: string;
  readonly port: number;
  readonly databaseUrl: string;
  readonly adminKey: string;
  /** Where its output goes. */
  readonly logFile: string;
  readonly env: Readonly<Record<string, string>>;
}

/** A service process and its orchestrator, which starts it again whenever it has ended. */
export class ServiceProcess {
  /** Ends of a process that had been ready that nobody asked for, or that were no graceful ones where that was asked for. */
  readonly unasked: string[] = [];
  private child: ChildProcess;
  private asked: 'SIGKILL' | 'SIGTERM' | undefined;
  private wasReady = false;
  private closing = false;

  constructor(readonly options: ServiceOptions) {
    this.child = this.start();
  }

  /** Past the proxies. */
  get base(): string {
    return `http://127.0.0.1:${this.options.port}`;
  }

  async isReady(): Promise<boolean> {
    try {
      const { status } = await fetch(`${this.base}/readyz`, { signal: AbortSignal.timeout(2_000) });
      this.wasReady ||= status === 200;
      return status === 200;
    } catch {
      // Not listening, or not answering: not ready.
      return false;
    }
  }

  /** Answers whether there was a process to send it to. */
  signal(signal: NodeJS.Signals): boolean {
    const sent = this.child.kill(signal);
    if (sent && (signal === 'SIGKILL' || signal === 'SIGTERM')) this.asked = signal;
    return sent;
  }

  async stop(): Promise<void> {
    this.closing = true;
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.kill('SIGCONT');
    this.child.kill('SIGTERM');
    if ((await Promise.race([ended, pause(15_000, undefined, { ref: false })])) === undefined)
      this.child.kill('SIGKILL');
    await ended;
  }

  private start(): ChildProcess {
    const { port, databaseUrl, adminKey, logFile, env } = this.options;
    const inherited = Object.entries(process.env).filter(([name]) => !/^(STINT_|NODE_TEST_CONTEXT)/.test(name));
    const output = openSync(logFile, 'a');
    const child = spawn(process.execPath, [...PRELOADS.flatMap((url) => ['--import', url]), MAIN, 'serve'], {
      stdio: ['ignore', output, output],
      env: {
        ...Object.fromEntries(inherited),
        STINT_HTTP_PORT: String(port),
        STINT_GRPC_PORT: '0',
        STINT_HOST: '127.0.0.1',
        STINT_DATABASE_URL: databaseUrl,
        STINT_ADMIN_KEY: adminKey,
        STINT_LOG_LEVEL: 'warn',
        ...env,
      },
    });
    closeSync(output);
    const takeAlong = (): void => void child.kill('SIGKILL');
    process.once('exit', takeAlong);
    child.once('exit', (code, signal) => {
      process.removeListener('exit', takeAlong);
      void this.ended(`${code ?? signal}`);
    });
    void this.watch(child);
    return child;
  }

  /** An end before it was ever ready is a start that failed, as one does while the database is away. */
  private async watch(child: ChildProcess): Promise<void> {
    while (child.exitCode === null && child.signalCode === null && !(await this.isReady())) await pause(WATCH_MS);
  }

  private async ended(how: string): Promise<void> {
    if (this.isClosing()) return;
    const wanted = this.asked === 'SIGKILL' || (this.asked === 'SIGTERM' && how === '0');
    if (!wanted && this.wasReady) {
      this.unasked.push(`service ${this.options.name} ended with ${how} after ${this.asked ?? 'no signal'}`);
    }
    this.asked = undefined;
    this.wasReady = false;
    await pause(RESTART_MS);
    if (!this.isClosing()) this.child = this.start();
  }

  private isClosing(): boolean {
    return this.closing;
  }
}
