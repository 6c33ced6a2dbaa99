import { METHODS } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Connections } from './connections.js';
import { problemOf } from './problem.js';
import { addRoute, respond } from './routes.js';

interface Parts {
  readonly connections: Connections;
  readonly log: Log;
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

/** Answers what no route takes: 405 on a path that knows other methods, else 404. To be called once the routes are added. */
export function refuseUnmatched(
  app: FastifyInstance,
  routes: ReadonlyMap<string, ReadonlySet<string>>,
  parts: Parts,
): void {
  for (const [url, methods] of routes) {
    const allow = [...methods].sort().join(', ');
    const method = ROUTED_METHODS.filter((candidate) => !methods.has(candidate));
    addRoute(app, parts, { method, url, answer: (exchange) => Promise.resolve(notAllowed(exchange.requestId, allow)) });
  }
  app.setNotFoundHandler((request: FastifyRequest, reply: FastifyReply) => {
    refuse(request, reply, parts, new ServiceError('NOT_FOUND', 'there is no such path'));
  });
}

function notAllowed(requestId: string, allow: string) {
  const problem = problemOf(new ServiceError('METHOD_NOT_ALLOWED', `this path takes ${allow}`), requestId);
  return { ...problem, headers: { ...problem.headers, allow } };
}

/** Answers a request that Fastify could not route. */
export function refuse(request: FastifyRequest, reply: FastifyReply, parts: Parts, error: ServiceError): void {
  reply.hijack();
  const exchange = parts.connections.of(request.raw);
  void respond(exchange, parts.log, () => Promise.resolve(problemOf(error, exchange.requestId)));
}
