import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Eventual } from '../core/eventual.js';
import { drainBody } from './drain-body.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** One request and its answer, from the headers' arrival until the answer is handed over or the client is gone. */
export class Exchange {
  readonly requestId: string;
  /** A client that asked for leave to send its body (`Expect: 100-continue`) and has not been given it. */
  #awaitsContinue: boolean;
  #handedOver = false;
  #lost = false;
  #controller: AbortController | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    options: { readonly awaitsContinue: boolean; readonly onEnd: (exchange: Exchange) => void },
  ) {
    this.requestId = requestIdOf(request);
    this.#awaitsContinue = options.awaitsContinue;
    // Node says `finish`, once, also of an answer that could not be written. Before Node's own listener, which may close the socket.
    response.prependListener('finish', () => {
      this.#handedOver = !request.socket.destroyed && request.socket.errored === null;
      this.lost();
      options.onEnd(this);
    });
    response.on('error', () => this.lost());
  }

  /** Aborted when the client is gone before it has the answer. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  /** Whether the client was gone before it had the answer. */
  get isLost(): boolean {
    return this.#lost;
  }

  /** Aborts the signal unless the answer was handed over. To be called when the connection is gone. */
  lost(): void {
    if (this.#handedOver || this.#lost) return;
    this.#lost = true;
    this.#controller?.abort();
  }

  /** To be called before the body is read. */
  permitBody(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    this.response.writeContinue();
  }

  /**
   * Sends the answer. What is left of the request's body is read and dropped first, within bounds, since a client that
   * is still sending would otherwise see a reset connection in place of the answer.
   */
  send(answer: Answer): Eventual<void> {
    const { request, response } = this;
    if (request.socket.destroyed || !request.socket.writable) return this.lost();
    const headers = ['content-length', Buffer.byteLength(answer.body)];
    headers.push('x-content-type-options', 'nosniff', 'x-request-id', this.requestId);
    for (const name in answer.headers) headers.push(name, answer.headers[name]!);
    if (this.#awaitsContinue) headers.push('connection', 'close');
    response.writeHead(answer.status, headers);
    if (request.complete) {
      response.end(answer.body);
      return;
    }
    response.write(answer.body);
    return drainBody(request).then((drained) => {
      response.end();
      if (!drained) request.socket.destroySoon();
    });
  }

  /** Has the connection closed once this answer is sent. */
  closeAfterwards(): void {
    if (!this.response.headersSent) this.response.setHeader('connection', 'close');
  }
}

/** A request's own id when it is a plain one, so that a caller can follow its call into the service's log. */
function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID();
}
