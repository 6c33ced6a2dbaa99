import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';

/** A POST as an endpoint has received it. */
export interface Received {
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
  readonly event: any;
}

export type Answer = (request: http.IncomingMessage, response: http.ServerResponse, received: Received) => void;

/** A tenant's endpoint on this machine, which answers 200 unless told otherwise. */
export interface Endpoint {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** How many connections it has been opened. */
  readonly connections: () => number;
  /** Of its requests the most that were under way at once. */
  readonly mostAtOnce: () => number;
  answers(how: Answer | number): void;
  close(): Promise<void>;
}

export async function startEndpoint(how: Answer | number = 200): Promise<Endpoint> {
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  let answer = answerOf(how);
  let connections = 0;
  let atOnce = 0;
  let mostAtOnce = 0;
  const server = http.createServer((request, response) => {
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    response.on('close', () => (atOnce -= 1));
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const one = { headers: request.headers, text, event: JSON.parse(text) };
      received.push(one);
      answer(request, response, one);
    });
  });
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook?key=hidden`,
    port,
    received,
    connections: () => connections,
    mostAtOnce: () => mostAtOnce,
    answers: (next) => (answer = answerOf(next)),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function answerOf(how: Answer | number): Answer {
  return typeof how === 'number' ? (_request, response) => void response.writeHead(how).end() : how;
}

/** What the package's own verifier makes of it; throws when it is not signed with that secret. */
export function verified(secret: string, { headers, text }: Pick<Received, 'headers' | 'text'>): any {
  return new Webhook(secret).verify(text, headers as Record<string, string>);
}
