import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import type { Call } from '../core/invoke.js';
import type { Operation } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { answerClientError } from './client-error.js';
import { Connections } from './connections.js';
import { Cors } from './cors.js';
import { addDocs } from './docs.js';
import { drain, type DrainOptions, type DrainState } from './drain.js';
import type { Exchange } from './exchange.js';
import { createListener } from './listener.js';
import { buildOpenApi } from './openapi.js';
import { addProbes, PROBE_PATHS, type Readiness } from './probes.js';
import { problemOf } from './problem.js';
import { addRoutes, respond, type RouteParts } from './routes.js';
import { refuse, refuseUnmatched, routeAllMethods } from './unmatched.js';

export interface HttpServerOptions<Engine> {
  readonly operations: readonly Operation<Engine>[];
  readonly invoke: (operation: Operation<Engine>, call: Call) => Promise<unknown>;
  readonly metrics: Pick<Metrics, 'render'>;
  readonly addressOf: RouteParts<never>['addressOf'];
  readonly log: Log;
  readonly ready: () => Promise<Readiness>;
  readonly version: string;
  /** How long an idle connection is kept: 75 s unless given. Keep it above the idle time of any load balancer in front. */
  readonly keepAliveSeconds?: number;
  /** How long a request's headers may take: 5 s more than `keepAliveSeconds` unless given. */
  readonly headersSeconds?: number;
  /** How long a request's body may take: 30 s unless given. */
  readonly bodySeconds?: number;
  /** Origins whose scripts may call; none unless given. */
  readonly corsOrigins?: readonly string[];
  /** False when `/metrics` has a port of its own. */
  readonly withMetrics?: boolean;
}

export interface HttpServer {
  /** Starts to listen; port 0 takes a free one. Rejects with the system's error, for instance `EADDRINUSE`. */
  listen(address: { readonly host: string; readonly port: number }): Promise<{ readonly port: number }>;
  /** Shuts down without losing an answer; resolves before the deadline. To be called once. */
  drain(options: DrainOptions): Promise<void>;
}

/** The REST transport: a route for every binding of the table, the probes, the OpenAPI document and its page. */
export async function createHttpServer<Engine>(options: HttpServerOptions<Engine>): Promise<HttpServer> {
  const { log } = options;
  const { corsOrigins = [] } = options;
  const cors = corsOrigins.length === 0 ? undefined : new Cors(corsOrigins);
  const connections = new Connections(cors);
  const state: DrainState = { draining: false, refusing: false };
  const app = createApp(options, { connections, state });
  routeAllMethods(app);
  const routes = collectRoutes(app);
  const openApi = buildOpenApi(options.operations, options.version);
  const ready = async (): Promise<Readiness> => (state.draining ? SHUTTING_DOWN : options.ready());

  addRoutes(app, options.operations, {
    invoke: options.invoke,
    connections,
    log,
    addressOf: options.addressOf,
    bodyTimeoutMs: (options.bodySeconds ?? 30) * 1000,
  });
  addProbes(app, {
    connections,
    log,
    metrics: options.metrics,
    ready,
    openApi,
    withMetrics: options.withMetrics ?? true,
  });
  refuseUnmatched(app, new Map(routes), { connections, log, cors });
  await addDocs(app, openApi);
  await app.ready();
  return {
    listen: (address) => listen(app.server, address),
    drain: async (how) => {
      await drain({ server: app.server, connections, state }, how);
      await app.close();
    },
  };
}

const SHUTTING_DOWN: Readiness = { ok: false, detail: 'shutting down' };

interface Frame {
  readonly connections: Connections;
  readonly state: DrainState;
}

function createApp<Engine>(options: HttpServerOptions<Engine>, { connections, state }: Frame): FastifyInstance {
  const { log, keepAliveSeconds = 75, headersSeconds = keepAliveSeconds + 5 } = options;
  const turnAway = (exchange: Exchange): boolean => {
    if (!state.refusing || PROBE_PATHS.has(exchange.request.url ?? '')) return false;
    const error = new ServiceError('UNAVAILABLE', 'shutting down');
    void respond(exchange, log, () => Promise.resolve(problemOf(error, exchange.requestId)));
    return true;
  };
  const app = fastify({
    serverFactory: (route) => createListener({ connections, route, turnAway }, { keepAliveSeconds, headersSeconds }),
    clientErrorHandler: (error, socket) => answerClientError(error, socket, connections),
    routerOptions: { maxParamLength: 1024, querystringParser: () => ({}) },
    frameworkErrors: (_error, request, reply) => {
      const error = new ServiceError('INVALID_ARGUMENT', 'the path is too long or not UTF-8 in percent-encoding');
      refuse(request, reply, { connections, log }, error);
    },
  });
  app.setErrorHandler((error, request, reply) => {
    log.error({ err: error }, 'page failed');
    refuse(request, reply, { connections, log }, new ServiceError('INTERNAL', 'internal error', { cause: error }));
  });
  return app;
}

/** The methods of every path, filled as routes are added. */
function collectRoutes(app: FastifyInstance): Map<string, Set<string>> {
  const routes = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const methods = routes.get(url) ?? new Set();
    for (const each of [method].flat()) methods.add(each);
    routes.set(url, methods);
  });
  return routes;
}

async function listen(server: Server, address: { readonly host: string; readonly port: number }) {
  // Without a host Node takes `::`, and all IPv4 addresses where there is no IPv6.
  if (address.host === '::') server.listen(address.port);
  else server.listen(address.port, address.host);
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port };
}
