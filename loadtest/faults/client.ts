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

export interface Call extends CallOptions {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH';
  readonly path: string;
  readonly body?: unknown;
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
      /** A status besides 2xx that is no refusal here. */
      readonly expected?: number;
    },
  ) {
    this.current = parts.first % parts.bases.length;
  }

  post(path: string, body: unknown, options: CallOptions = {}): Promise<Reply> {
    return this.send({ method: 'POST', path, body, ...options });
  }

  async send(call: Call): Promise<Reply> {
    const at = this.current;
    const reply = await this.call(this.parts.bases[at]!, call);
    const { status } = reply;
    const isExpected = (status >= 200 && status < 300) || status === this.parts.expected;
    this.answered += 1;
    if ((!isExpected || this.answered % TURN === 0) && this.current === at) {
      this.current = (at + 1) % this.parts.bases.length;
    }
    if (isExpected) return reply;
    const detail = (typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body)).slice(0, 500);
    this.parts.journal.write({ type: 'refused', at: now(), path: call.path, status, detail });
    return reply;
  }

  private async call(base: string, { method, path, body, patience = PATIENCE_MS, signal }: Call): Promise<Reply> {
    const timeout = AbortSignal.timeout(patience);
    const authorization = `Bearer ${this.parts.key}`;
    try {
      const answer = await request(`${base}${path}`, {
        method,
        ...(body === undefined
          ? { headers: { authorization } }
          : { headers: { authorization, 'content-type': 'application/json' }, body: JSON.stringify(body) }),
        dispatcher: this.agent,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      return { status: answer.statusCode, body: await answer.body.json() };
    } catch (error) {
      return { status: 0, body: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
    }
  }
}
