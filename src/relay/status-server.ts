import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SECURITY_HEADERS } from '../http/security-headers.js';
import type { Health } from './health.js';
import type { RelayMetrics } from './metrics.js';

const HEADERS = { ...SECURITY_HEADERS, 'cache-control': 'no-store' };

export interface StatusServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves `/livez`, `/readyz` and `/metrics`. Rejects with the system's error, for instance `EADDRINUSE`. */
export async function startStatusServer(
  { health, metrics }: { readonly health: Pick<Health, 'ready'>; readonly metrics: Pick<RelayMetrics, 'render'> },
  address: { readonly host: string; readonly port: number },
): Promise<StatusServer> {
  const answers: Record<string, (response: ServerResponse) => Promise<void> | void> = {
    '/livez': (response) => json(response, 200, { status: 'ok' }),
    '/readyz': (response) => {
      const { ok, detail } = health.ready();
      json(response, ok ? 200 : 503, { status: ok ? 'ok' : 'unavailable', detail });
    },
    '/metrics': async (response) => {
      const { contentType, body } = await metrics.render();
      response.writeHead(200, { ...HEADERS, 'content-type': contentType }).end(body);
    },
  };
  const server = createServer((request, response) => {
    const answer = request.method === 'GET' ? answers[request.url ?? ''] : undefined;
    if (answer === undefined) return void response.writeHead(404, HEADERS).end();
    void Promise.resolve(answer(response)).catch(() => response.writeHead(500, HEADERS).end());
  });
  server.listen(address.port, address.host);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { ...HEADERS, 'content-type': 'application/json' }).end(JSON.stringify(body));
}
