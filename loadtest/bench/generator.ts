import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { FromGenerator, Load, ToGenerator } from './messages.js';
import type { Taken } from './tally.js';

const PROGRAM = fileURLToPath(new URL('./generator-process.js', import.meta.url));

/** A load generator in a process of its own; makes one load at a time. */
export class Generator {
  private readonly child: ChildProcess;

  constructor() {
    this.child = fork(PROGRAM, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  }

  get pid(): number {
    return this.child.pid!;
  }

  async start(load: Load): Promise<void> {
    await this.ask({ type: 'start', load });
  }

  /** What happened since the last time; the load goes on. */
  async take(): Promise<Taken> {
    return this.takenFrom({ type: 'take' });
  }

  /** Ends the load, finishes the calls under way, and answers what happened since the last time. */
  async stop(): Promise<Taken> {
    return this.takenFrom({ type: 'stop' });
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, 'exit');
    if (this.child.connected) this.child.disconnect();
    await ended;
  }

  private async takenFrom(message: ToGenerator): Promise<Taken> {
    const answer = await this.ask(message);
    if (answer.type !== 'taken' && answer.type !== 'stopped') throw new Error(`a load generator said ${answer.type}`);
    return answer.taken;
  }

  private async ask(message: ToGenerator): Promise<FromGenerator> {
    const over = new AbortController();
    const died = once(this.child, 'exit', { signal: over.signal }).then(() => {
      throw new Error('a load generator has ended');
    });
    died.catch(() => undefined);
    try {
      const answered = once(this.child, 'message', { signal: over.signal }) as Promise<[FromGenerator]>;
      this.child.send(message);
      const [answer] = await Promise.race([answered, died]);
      if (answer.type === 'failed') throw new Error(`a load failed: ${answer.message}`);
      return answer;
    } finally {
      over.abort();
    }
  }
}
