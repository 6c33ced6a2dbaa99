import { IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { CredentialMemory } from '../core/presented.js';
import type { Cors } from './cors.js';
import { BodyDrain } from './drain-body.js';
import { Exchange } from './exchange.js';

/** A request that knows its exchange: for every request a weak map costs the garbage collector more than a field does. */
class Request extends IncomingMessage {
  exchange: Exchange | undefined;
}

/** One of them. Its exchanges are one or two: in a set each would cost a hash of its own. */
class Connection {
  readonly running: Exchange[] = [];
  readonly memory: CredentialMemory = { presented: undefined };
}

type Carrier = IncomingMessage & Pick<Request, 'exchange'>;

/**
 * The open connections and the exchanges that run on them. An exchange is looked up by its request; a connection that
 * closes tells its unfinished exchanges. An exchange ends when its answer has been handed to the system.
 */
export class Connections {
  readonly #open = new Map<Socket, Connection>();
  /** Connections that close once their running exchanges are answered. */
  readonly #ending = new WeakSet<Socket>();
  readonly #drain = new BodyDrain();
  #closing = false;

  constructor(private readonly cors?: Cors) {}

  /** What the server is to make its requests of. */
  readonly requests = Request;

  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#open.set(socket, new Connection());
      socket.once('close', () => this.#closed(socket));
    });
  }

  begin(request: IncomingMessage, response: ServerResponse, options = { awaitsContinue: false }): Exchange {
    const connection = this.#open.get(request.socket) ?? new Connection();
    const exchange = new Exchange(request, response, {
      ...options,
      memory: connection.memory,
      drain: this.#drain,
      cors: this.cors,
    });
    (request as Carrier).exchange = exchange;
    // Node says `finish`, once, also of an answer that could not be written. Before Node's own listener, which may close the socket.
    response.prependListener('finish', this.#finished);
    response.on('error', this.#failed);
    connection.running.push(exchange);
    if (this.#closing) exchange.closeAfterwards();
    return exchange;
  }

  of(request: IncomingMessage): Exchange {
    const { exchange } = request as Carrier;
    if (exchange === undefined) throw new Error('a request came past the listener');
    return exchange;
  }

  /** From now on every answer closes its connection. */
  closeAfterAnswers(): void {
    this.#closing = true;
    for (const { running } of this.#open.values()) for (const exchange of running) exchange.closeAfterwards();
  }

  /** Whether bytes written to the connection would be taken for the answer to a request that was received. */
  isAnswering(socket: Socket): boolean {
    const running = this.#open.get(socket)?.running ?? [];
    return running.some(({ request, response }) => request.complete || response.headersSent);
  }

  /** Has the connection closed when the requests received on it are answered. */
  closeWhenAnswered(socket: Socket): void {
    this.#ending.add(socket);
  }

  /** How many connections are open. */
  get open(): number {
    return this.#open.size;
  }

  /** Cuts connections on which no request stands unanswered: silent ones and those with half-sent headers. */
  destroyQuiet(): void {
    for (const [socket, { running }] of this.#open) if (running.length === 0) socket.destroySoon();
  }

  /** Cuts the connections whose requests are still being sent. */
  destroyIncomplete(): void {
    for (const [socket, { running }] of this.#open) {
      if (running.some((exchange) => !exchange.request.complete)) socket.destroy();
    }
  }

  destroyAll(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }

  // One for all answers: a function of its own for each costs the garbage collector more than what it does.
  readonly #finished = ended((exchange) => {
    exchange.finished();
    this.#ended(exchange);
  });

  readonly #failed = ended((exchange) => exchange.lost());

  #ended(exchange: Exchange): void {
    const { socket } = exchange.request;
    const running = this.#open.get(socket)?.running;
    if (running === undefined) return;
    running.splice(running.indexOf(exchange), 1);
    if (running.length === 0 && this.#ending.has(socket)) socket.destroySoon();
  }

  #closed(socket: Socket): void {
    const connection = this.#open.get(socket);
    this.#open.delete(socket);
    for (const exchange of connection?.running ?? []) exchange.lost();
  }
}

/** A listener on a response that finds its exchange. */
function ended(tell: (exchange: Exchange) => void): (this: ServerResponse) => void {
  return function () {
    tell((this.req as Carrier).exchange!);
  };
}
