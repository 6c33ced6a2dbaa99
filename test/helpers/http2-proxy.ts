import { once } from 'node:events';
import {
  connect,
  constants,
  createServer,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';

export interface Http2Proxy {
  /** `host:port`. */
  readonly target: string;
  close(): Promise<void>;
}

/** A proxy as they stand before gRPC services: every call of every client goes over one connection, which it keeps. */
export async function startHttp2Proxy(target: string): Promise<Http2Proxy> {
  const upstream = connect(`http://${target}`);
  await once(upstream, 'connect');
  const sessions = new Set<Http2Session>();
  const server = createServer();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('close', () => sessions.delete(session));
  });
  server.on('stream', (stream, headers) => forward(stream, headers, upstream));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    target: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      for (const session of sessions) session.destroy();
      upstream.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, upstream: Http2Session): void {
  const request = (upstream as ReturnType<typeof connect>).request(headers);
  let trailers: IncomingHttpHeaders = {};
  request.on('response', (answer, flags) => {
    const isAll = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
    if (!stream.destroyed) stream.respond(answer, isAll ? { endStream: true } : { waitForTrailers: true });
  });
  request.on('trailers', (received) => (trailers = received));
  stream.on('wantTrailers', () => stream.sendTrailers(trailers));
  // A side that breaks off is what these tests are about; the other is told.
  for (const side of [stream, request]) side.on('error', () => undefined);
  stream.on('close', () => request.close(stream.rstCode));
  stream.pipe(request).pipe(stream);
}
