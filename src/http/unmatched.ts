import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Connections } from './connections.js';
import type { Cors } from './cors.js';
import type { Answer, Exchange } from './exchange.js';
import { problemOf } from './problem.js';
import { addRoute, respond } from './routes.js';

export interface UnmatchedParts {
  readonly connections: Connections;
  readonly log: Log;
  /** Undefined: a browser that asks is told nothing. */
  readonly cors?: Cors | undefined;
}

/** Every method but CONNECT, which asks for a tunnel and never reaches a route. */
const ROUTED_METHODS = METHODS.filter((method) => method !== 'CONNECT');

/**
 * Has Fastify route every method and read no body: an operation reads its own, once its caller is known.
 * To be called before any route is added.
 */
export function routeAllMethods(app: FastifyInstance): void {
  for (const method of ROUTED_METHODS) app.addHttpMethod(method, { hasBody: false, overrideExisting: true });
}

/**
 * Answers what no route takes: 405 on a path that knows other methods, unless a browser asks what scripts may do there, else 404.
 * To be called once the routes are added.
 */
export function refuseUnmatched(
  app: FastifyInstance,
  routes: ReadonlyMap<string, ReadonlySet<string>>,
  parts: UnmatchedParts,
): void {
  for (const [url, methods] of routes) {
    const allow = [...methods].sort().join(', ');
    const method = ROUTED_METHODS.filter((candidate) => !methods.has(candidate));
    const answer = ({ request, requestId }: Exchange): Answer => {
      const headers = parts.cors?.preflight(request, allow);
      return headers === undefined ? notAllowed(requestId, allow) : { status: 200, headers, body: '' };
    };
    addRoute(app, parts, { method, url, answer: (exchange) => Promise.resolve(answer(exchange)) });
  }
  app.setNotFoundHandler((request: FastifyRequest, reply: FastifyReply) => {
    refuse(request, reply, parts, new ServiceError('NOT_FOUND', 'there is no such path'));
  });
}

function notAllowed(requestId: string, allow: string): Answer {
  const problem = problemOf(new ServiceError('METHOD_NOT_ALLOWED', `this path takes ${allow}`), requestId);
  return { ...problem, headers: { ...problem.headers, allow } };
}

/** Answers a request that Fastify could not route. */
export function refuse(request: FastifyRequest, reply: FastifyReply, parts: UnmatchedParts, error: ServiceError): void {
  reply.hijack();
  const exchange = parts.connections.of(request.raw);
  void respond(exchange, parts.log, () => Promise.resolve(problemOf(error, exchange.requestId)));
}
