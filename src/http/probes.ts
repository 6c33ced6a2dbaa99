import type { FastifyInstance } from 'fastify';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import type { Connections } from './connections.js';
import type { Answer } from './exchange.js';
import { addRoute, jsonAnswer } from './routes.js';

export interface Readiness {
  readonly ok: boolean;
  /** In words, for the operator: what is amiss. */
  readonly detail: string;
}

export interface ProbeParts {
  readonly connections: Connections;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'render'>;
  readonly ready: () => Promise<Readiness>;
  readonly openApi: object;
  /** Whether `/metrics` is served here, and not on a port of its own. */
  readonly withMetrics: boolean;
}

/** Paths that go on answering while the server shuts down. */
export const PROBE_PATHS: ReadonlySet<string> = new Set(['/livez', '/readyz', '/metrics']);

/** Adds the routes that need no credential. */
export function addProbes(app: FastifyInstance, parts: ProbeParts): void {
  const document = JSON.stringify(parts.openApi);
  const answers: Record<string, () => Promise<Answer>> = {
    '/livez': () => Promise.resolve(jsonAnswer(200, '{"status":"ok"}')),
    '/readyz': async () => readyAnswer(await parts.ready()),
    ...(parts.withMetrics && { '/metrics': async () => metricsAnswer(await parts.metrics.render()) }),
    '/openapi.json': () => Promise.resolve(jsonAnswer(200, document)),
  };
  for (const [url, answer] of Object.entries(answers)) addRoute(app, parts, { method: 'GET', url, answer });
}

function readyAnswer({ ok, detail }: Readiness): Answer {
  return jsonAnswer(ok ? 200 : 503, JSON.stringify({ status: ok ? 'ok' : 'unavailable', detail }));
}

function metricsAnswer({ contentType, body }: { readonly contentType: string; readonly body: string }): Answer {
  return { status: 200, headers: { 'content-type': contentType, 'cache-control': 'no-store' }, body };
}
