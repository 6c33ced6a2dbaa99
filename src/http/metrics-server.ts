import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Metrics } from '../observability/metrics.js';
import { SECURITY_HEADERS } from './security-headers.js';

const HEADERS = { ...SECURITY_HEADERS, 'cache-control': 'no-store' };

export interface MetricsServer {
  readonly port: number;
  close(): Promise<void>;
}

/** Serves `/metrics`, and nothing else, on a port of its own. Rejects with the system's error, for instance `EADDRINUSE`. */
export async function startMetricsServer(
  metrics: Pick<Metrics, 'render'>,
  address: { readonly host: string; readonly port: number },
): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404, HEADERS).end();
      return;
    }
    metrics.render().then(
      ({ contentType, body }) => response.writeHead(200, { ...HEADERS, 'content-type': contentType }).end(body),
      () => response.writeHead(500, HEADERS).end(),
    );
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
