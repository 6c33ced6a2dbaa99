import { Client } from 'undici';
import type { Target } from './messages.js';

export interface Answer {
  readonly status: number;
  /** Latin-1, since all that is looked for is ASCII and this costs least. */
  readonly text: string;
}

type Method = 'GET' | 'POST' | 'PUT';

/** One kept-alive connection with at most one call under way. */
export class Caller {
  private readonly client: Client;
  private readonly headers: Record<string, string>;

  constructor(base: string, key: string) {
    this.client = new Client(base, { pipelining: 1, headersTimeout: 90_000, bodyTimeout: 90_000 });
    this.headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  }

  /** Answers whatever status came; throws when none came. */
  call(method: Method, path: string, body?: string | Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      let status = 0;
      const chunks: Buffer[] = [];
      this.client.dispatch(
        { method, path, headers: this.headers, body: body ?? null },
        {
          onRequestStart: () => undefined,
          onResponseStart: (_controller, statusCode) => (status = statusCode),
          onResponseData: (_controller, chunk) => chunks.push(chunk),
          onResponseEnd: () => {
            const whole = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
            resolve({ status, text: whole.toString('latin1') });
          },
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
  }

  /** Ends the connection, the call under way too. */
  close(): Promise<void> {
    return this.client.destroy();
  }
}

/** As many callers, spread over the target's bases. */
export function callersFor({ bases, key }: Target, count: number): Caller[] {
  return Array.from({ length: count }, (_, index) => new Caller(bases[index % bases.length]!, key));
}
