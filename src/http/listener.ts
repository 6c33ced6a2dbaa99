import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { Connections } from './connections.js';
import type { Exchange } from './exchange.js';

export interface ListenerOptions {
  /** How long an idle connection is kept. Longer than a load balancer keeps its own, or it sends into a closed one. */
  readonly keepAliveSeconds: number;
  /** How long a request's headers may take, from the first byte or from the connection's opening. */
  readonly headersSeconds: number;
}

export interface ListenerParts {
  readonly connections: Connections;
  readonly route: RequestListener;
  /** Answers the request itself when the server takes no new ones; returns whether it did. */
  readonly turnAway: (exchange: Exchange) => boolean;
}

/** Node's HTTP server with this service's limits. Every request becomes an exchange before it is routed. */
export function createListener(parts: ListenerParts, options: ListenerOptions): Server {
  const headersTimeout = options.headersSeconds * 1000;
  const server = createServer({
    IncomingMessage: parts.connections.requests,
    keepAliveTimeout: options.keepAliveSeconds * 1000,
    headersTimeout,
    // The reader of bodies has a limit of its own; Node wants this one no lower than that for headers.
    requestTimeout: headersTimeout,
    connectionsCheckingInterval: Math.min(5_000, headersTimeout / 4),
    noDelay: true,
  });
  const accept = (request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void => {
    const exchange = parts.connections.begin(request, response, { awaitsContinue });
    if (!parts.turnAway(exchange)) parts.route(request, response);
  };
  server.on('request', (request, response) => accept(request, response, false));
  server.on('checkContinue', (request, response) => accept(request, response, true));
  parts.connections.watch(server);
  return server;
}
