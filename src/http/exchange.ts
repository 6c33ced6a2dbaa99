import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RateState } from '../core/admission.js';
import { Departure } from '../core/departure.js';
import type { Eventual } from '../core/eventual.js';
import type { CredentialMemory } from '../core/presented.js';
import { requestIdFrom } from '../core/request-id.js';
import type { Cors } from './cors.js';
import type { BodyDrain } from './drain-body.js';
import { SECURITY_HEADER_LIST } from './security-headers.js';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface ExchangeOptions {
  readonly awaitsContinue: boolean;
  readonly memory: CredentialMemory;
  readonly drain: BodyDrain;
  /** Undefined: nothing is said to scripts of other origins. */
  readonly cors?: Cors | undefined;
}

/** One request and its answer, from the headers' arrival until the answer is handed over or the client is gone. */
export class Exchange {
  readonly requestId: string;
  /** Of its connection. */
  readonly memory: CredentialMemory;
  /** A client that asked for leave to send its body (`Expect: 100-continue`) and has not been given it. */
  #awaitsContinue: boolean;
  readonly #cors: Cors | undefined;
  readonly #drain: BodyDrain;
  #handedOver = false;
  /** Of the client, before it has the answer. */
  readonly departure = new Departure();
  /** Where the caller stands at its limit, when it has one. */
  rate: RateState | undefined;

  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    options: ExchangeOptions,
  ) {
    this.memory = options.memory;
    this.requestId = requestIdFrom(request.headers['x-request-id']);
    this.#awaitsContinue = options.awaitsContinue;
    this.#cors = options.cors;
    this.#drain = options.drain;
  }

  /** The answer has been handed to the system, or could not be. To be called once, before the socket is closed for it. */
  finished(): void {
    const { socket } = this.request;
    this.#handedOver = !socket.destroyed && socket.errored === null;
    this.lost();
  }

  /** Tells the departure unless the answer was handed over. To be called when the connection is gone. */
  lost(): void {
    if (!this.#handedOver) this.departure.tell();
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
    const headers = ['content-length', Buffer.byteLength(answer.body), 'x-request-id', this.requestId];
    headers.push(...SECURITY_HEADER_LIST);
    if (this.rate !== undefined) addRate(headers, this.rate);
    this.#cors?.addTo(headers, request);
    for (const name in answer.headers) headers.push(name, answer.headers[name]!);
    if (this.#awaitsContinue) headers.push('connection', 'close');
    response.writeHead(answer.status, headers);
    if (request.complete) {
      response.end(answer.body);
      return;
    }
    response.write(answer.body);
    return this.#drain.drain(request).then((drained) => {
      response.end();
      if (!drained) request.socket.destroySoon();
    });
  }

  /** Has the connection closed once this answer is sent. */
  closeAfterwards(): void {
    if (!this.response.headersSent) this.response.setHeader('connection', 'close');
  }
}

// Names and meaning: draft-ietf-httpapi-ratelimit-headers-06, the form that clients know.
function addRate(headers: (string | number)[], { limit, remaining, reset }: RateState): void {
  headers.push('ratelimit-limit', limit, 'ratelimit-remaining', remaining, 'ratelimit-reset', reset);
  headers.push('ratelimit-policy', `${limit};w=1`);
}
