import { Agent, request } from 'undici';
import { type Journal, now } from './journal.js';

export interface Reply {
  /** 0 when no answer came. */
  readonly status: number;
  readonly body: unknown;
}

export interface CallOptions {
  /** Milliseconds until the answer is given up; 5 s unless given. */
  readonly patience?: number;
  readonly signal?: AbortSignal;
}

const PATIENCE_MS = 5_000;

/** Calls answered by one service after which the next is turned to, so that all of them always have work. */
const TURN = 40;

/** Calls the services in turn, and turns away from one that fails. Never throws for what a network does. */
export class Client {
  private readonly agent = new Agent({ connections: 8, connect: { timeout: 2_000 }, keepAliveTimeout: 4_000 });
  private current: number;
  private answered = 0;

  constructor(
    private readonly parts: {
      readonly bases: readonly string[];
      readonly key: string;
      readonly first: number;
      readonly journal: Journal;
    },
  ) {
    this.current = parts.first % parts.bases.length;
  }

  async post(path: string, body: unknown, options: CallOptions = {}): Promise<Reply> {
    const at = this.current;
    const reply = await this.call(`${this.parts.bases[at]!}${path}`, body, options);
    const isSuccess = reply.status >= 200 && reply.status < 300;
    this.answered += 1;
    if ((!isSuccess || this.answered % TURN === 0) && this.current === at) {
      this.current = (at + 1) % this.parts.bases.length;
    }
    if (isSuccess) return reply;
    const detail = typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body);
    this.parts.journal.write({ type: 'refused', at: now(), path, status: reply.status, detail: detail.slice(0, 500) });
    return reply;
  }

  private async call(url: string, body: unknown, { patience = PATIENCE_MS, signal }: CallOptions): Promise<Reply> {
    const timeout = AbortSignal.timeout(patience);
    try {
      const answer = await request(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${this.parts.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        dispatcher: this.agent,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      return { status: answer.statusCode, body: await answer.body.json() };
    } catch (error) {
      return { status: 0, body: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
    }
  }
}
