import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { ActorOrders, Order } from './actor.js';

const RESTART_MS = 300;

export type ActorPart = 'producer' | 'worker' | 'probe' | 'tuner' | 'intruder';

export interface ActorOptions extends Omit<ActorOrders, 'journal'> {
  readonly part: ActorPart;
  /** Where its journals go, one for each of its lives. */
  readonly directory: string;
}

/** A producer, worker, probe, tuner or intruder in a process of its own; one that is killed is followed by another that knows nothing of it. */
export class ActorProcess {
  /** Why it ended where nobody asked it to. */
  readonly unasked: string[] = [];
  private child: ChildProcess;
  private lives = 0;
  private asked = false;
  private killed = false;
  private lastOrder: Order | undefined;

  constructor(readonly options: ActorOptions) {
    this.child = this.start();
  }

  /** Sends it an order that its later lives are given too. */
  tell(order: Order): void {
    this.lastOrder = order;
    this.asked ||= order === 'stop';
    if (this.child.connected) this.child.send(order);
  }

  /** Answers whether there was a process to send it to. */
  signal(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): boolean {
    const sent = this.child.kill(signal);
    this.killed ||= sent && signal === 'SIGKILL';
    return sent;
  }

  /** Whether it has ended within so many milliseconds; then, if not, it is killed. */
  async ended(within: number): Promise<boolean> {
    this.asked = true;
    if (this.child.exitCode !== null || this.child.signalCode !== null) return true;
    const ended = once(this.child, 'exit').then(() => true);
    const inTime = await Promise.race([ended, pause(within, false, { ref: false })]);
    if (!inTime) this.signal('SIGKILL');
    await ended;
    return inTime;
  }

  private start(): ChildProcess {
    const { part, directory, ...rest } = this.options;
    this.lives += 1;
    const name = this.lives === 1 ? rest.name : `${rest.name}-life${this.lives}`;
    const orders: ActorOrders = { ...rest, name, journal: path.join(directory, `${name}.ndjson`) };
    const script = fileURLToPath(new URL(`./${part}.js`, import.meta.url));
    const child = fork(script, [JSON.stringify(orders)], { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    let said = '';
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text));
    child.once('exit', (code, signal) => void this.exited(`${code ?? signal}: ${said.slice(0, 2_000)}`, code === 0));
    if (this.lastOrder !== undefined) child.send(this.lastOrder);
    return child;
  }

  private async exited(how: string, well: boolean): Promise<void> {
    if (well) return;
    if (!this.killed) this.unasked.push(`${this.options.name} ended by itself: ${how}`);
    this.killed = false;
    await pause(RESTART_MS);
    if (!this.asked) this.child = this.start();
  }
}
