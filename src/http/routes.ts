import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { compileEncoder } from '../core/encode.js';
import type { RateState } from '../core/admission.js';
import type { Departure } from '../core/departure.js';
import type { Call } from '../core/invoke.js';
import type { Eventual } from '../core/eventual.js';
import type { CredentialMemory } from '../core/presented.js';
import type { HttpBinding, HttpForm, Operation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Connections } from './connections.js';
import type { Answer, Exchange } from './exchange.js';
import { compileInput } from './input.js';
import { problemOf } from './problem.js';

export interface RouteParts<Engine> {
  readonly invoke: (operation: Operation<Engine>, call: Call) => Promise<unknown>;
  readonly connections: Connections;
  readonly log: Log;
  readonly bodyTimeoutMs: number;
  /** Where a call comes from, by its peer and what proxies say of it. */
  readonly addressOf: (peer: string | undefined, forwardedFor: string | undefined) => string;
}

type Answering = (exchange: Exchange, path: Readonly<Record<string, string>>) => Promise<Answer>;

/** Adds one route to the server for every REST binding of the table. */
export function addRoutes<Engine>(
  app: FastifyInstance,
  operations: readonly Operation<Engine>[],
  parts: RouteParts<Engine>,
): void {
  for (const operation of operations) {
    for (const binding of operation.http) {
      addRoute(app, parts, { method: binding.method, url: binding.path, answer: answerOf(operation, binding, parts) });
    }
  }
}

/** By the time this is told Node's parser is done with what has come in: most often the body is there and need not be waited for. */
const ARRIVED = Promise.resolve();

interface Route {
  readonly method: string | string[];
  readonly url: string;
  readonly answer: Answering;
}

/** Adds a route whose answers are written by its exchange, past Fastify's parsers and serializers. */
export function addRoute(
  app: FastifyInstance,
  parts: Pick<RouteParts<never>, 'connections' | 'log'>,
  route: Route,
): void {
  const handler = (request: FastifyRequest, reply: FastifyReply): void => {
    reply.hijack();
    const exchange = parts.connections.of(request.raw);
    const path = request.params as Record<string, string>;
    void ARRIVED.then(() => respond(exchange, parts.log, () => route.answer(exchange, path)));
  };
  app.route({ method: route.method, url: route.url, handler });
}

/** Sends what `answer` comes to, or the problem it ends in. */
export async function respond(exchange: Exchange, log: Log, answer: () => Promise<Answer>): Promise<void> {
  let made: Answer;
  try {
    made = await answer();
  } catch (error) {
    made = problemOf(known(error, exchange, log), exchange.requestId);
  }
  try {
    const sent = exchange.send(made);
    if (sent instanceof Promise) await sent;
  } catch (error) {
    log.error({ requestId: exchange.requestId, err: error }, 'answer failed');
    exchange.request.socket.destroy();
  }
}

function known(error: unknown, exchange: Exchange, log: Log): ServiceError {
  if (error instanceof ServiceError) return error;
  // The operation has run but its caller will not have the outcome: what it was given goes back.
  exchange.lost();
  log.error({ requestId: exchange.requestId, err: error }, 'no answer could be made');
  return new ServiceError('INTERNAL', 'internal error', { cause: error });
}

function answerOf<Engine>(operation: Operation<Engine>, binding: HttpBinding, parts: RouteParts<Engine>): Answering {
  const { form, status = 200 } = binding;
  const readInput = compileInput(operation, binding, parts.bodyTimeoutMs);
  const encode = compileEncoder(form?.output ?? operation.output);
  const toAnswer = (output: unknown): Answer =>
    jsonAnswer(typeof status === 'number' ? status : status(output), encode(output));

  return function answer(exchange, path) {
    const read = (): Eventual<unknown> => readInput(exchange, path);
    return parts.invoke(operation, new HttpCall(exchange, { form, read, addressOf: parts.addressOf })).then(toAnswer);
  };
}

interface HttpCallParts {
  readonly form: HttpForm | undefined;
  readonly read: () => Eventual<unknown>;
  readonly addressOf: RouteParts<never>['addressOf'];
}

class HttpCall implements Call {
  readonly transport = 'http';

  constructor(
    private readonly exchange: Exchange,
    private readonly parts: HttpCallParts,
  ) {}

  get form(): HttpForm | undefined {
    return this.parts.form;
  }

  get address(): string {
    const { socket, headers } = this.exchange.request;
    const forwardedFor = headers['x-forwarded-for'];
    return this.parts.addressOf(
      socket.remoteAddress,
      Array.isArray(forwardedFor) ? forwardedFor.join(',') : forwardedFor,
    );
  }

  set rate(rate: RateState | undefined) {
    this.exchange.rate = rate;
  }

  read(): Eventual<unknown> {
    return this.parts.read();
  }

  get authorization(): string | undefined {
    return this.exchange.request.headers.authorization;
  }

  get traceparent(): string | undefined {
    return this.#trace('traceparent');
  }

  get tracestate(): string | undefined {
    return this.#trace('tracestate');
  }

  #trace(name: string): string | undefined {
    const given = this.exchange.request.headers[name];
    return Array.isArray(given) ? given.join(',') : given;
  }

  get memory(): CredentialMemory {
    return this.exchange.memory;
  }

  get requestId(): string {
    return this.exchange.requestId;
  }

  get departure(): Departure {
    return this.exchange.departure;
  }
}

const JSON_HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' };

export function jsonAnswer(status: number, body: string): Answer {
  return { status, headers: JSON_HEADERS, body };
}
