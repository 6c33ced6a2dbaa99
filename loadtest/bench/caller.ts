import { type Answer, LeanClient } from './lean-client.js';
import type { Target } from './messages.js';

type Method = 'GET' | 'POST' | 'PUT';

interface Prepared {
  readonly method: Method;
  readonly path: string;
  readonly request: Buffer;
}

/** One kept-alive connection with at most one call under way. */
export class Caller {
  private readonly client: LeanClient;
  private readonly fields: string;
  private readonly prepared = new WeakMap<Buffer, Prepared>();

  constructor(base: string, key: string) {
    this.client = new LeanClient(base);
    this.fields = `host: ${new URL(base).host}\r\nconnection: keep-alive\r\nauthorization: Bearer ${key}\r\n`;
  }

  /**
   * Answers whatever status came; throws when none came. A body in a buffer must stay as it is: the request is put together once
   * and sent again whenever the same buffer goes to the same path.
   */
  call(method: Method, path: string, body?: string | Buffer): Promise<Answer> {
    if (body === undefined) return this.client.exchange(`${method} ${path} HTTP/1.1\r\n${this.fields}\r\n`);
    if (typeof body !== 'string') return this.client.exchange(this.requestFor(method, path, body));
    return this.client.exchange(this.headFor(method, path, Buffer.byteLength(body)) + body);
  }

  /** Ends the connection, the call under way too. */
  close(): Promise<void> {
    this.client.close();
    return Promise.resolve();
  }

  private requestFor(method: Method, path: string, body: Buffer): Buffer {
    const known = this.prepared.get(body);
    if (known?.path === path && known.method === method) return known.request;
    const request = Buffer.concat([Buffer.from(this.headFor(method, path, body.length)), body]);
    this.prepared.set(body, { method, path, request });
    return request;
  }

  private headFor(method: Method, path: string, bytes: number): string {
    const length = `content-type: application/json\r\ncontent-length: ${bytes}\r\n`;
    return `${method} ${path} HTTP/1.1\r\n${this.fields}${length}\r\n`;
  }
}

/** As many callers, spread over the target's bases. */
export function callersFor({ bases, key }: Target, count: number): Caller[] {
  return Array.from({ length: count }, (_, index) => new Caller(bases[index % bases.length]!, key));
}
