import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, it } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { Caller } from '../loadtest/bench/caller.js';
import { LeanClient } from '../loadtest/bench/lean-client.js';

const REQUEST = 'GET / HTTP/1.1\r\nhost: test\r\n\r\n';
const BODY = '{"jobs":[{"leaseToken":"a"}]}';

function answerOf(body: string, fields = ''): string {
  return `HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
}

interface Toy {
  readonly base: string;
  /** What came, over all connections. */
  readonly received: () => string;
  readonly connections: () => number;
}

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** Calls `onRequest` once for whatever comes in one piece; requests here are small and come one at a time. */
async function toy(onRequest: (socket: Socket, nth: number) => void): Promise<Toy> {
  let requests = 0;
  let received = '';
  const sockets = new Set<Socket>();
  const server: Server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('data', (data) => {
      received += data.toString('latin1');
      onRequest(socket, (requests += 1));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port } = server.address() as AddressInfo;
  return { base: `http://127.0.0.1:${port}`, received: () => received, connections: () => sockets.size };
}

function clientOf({ base }: Toy): LeanClient {
  const client = new LeanClient(base);
  ends.push(() => client.close());
  return client;
}

/** Writes each part only when the client has read those before, so that each comes to it as a chunk of its own. */
async function writeApart(socket: Socket, client: LeanClient, parts: readonly string[]): Promise<void> {
  for (const part of parts) {
    while (client['socket']!.bytesRead < socket.bytesWritten) await immediate();
    socket.write(part, 'latin1');
  }
}

describe('the client of the load harness', { timeout: 30_000 }, () => {
  it('reads an answer wherever it is split', async () => {
    const whole = answerOf(BODY);
    const server = await toy((socket, nth) => void writeApart(socket, client, [whole.slice(0, nth), whole.slice(nth)]));
    const client = clientOf(server);
    for (let at = 1; at < whole.length; at += 1) {
      assert.deepEqual(await client.exchange(REQUEST), { status: 201, text: BODY }, `split after ${at} bytes`);
    }
    assert.equal(server.connections(), 1);
  });

  it('reads an answer that comes byte by byte', async () => {
    const server = await toy((socket) => void writeApart(socket, client, answerOf(BODY).match(/[^]/g)!));
    const client = clientOf(server);
    assert.deepEqual(await client.exchange(REQUEST), { status: 201, text: BODY });
  });

  it('reads a body that is longer than its buffer', async () => {
    const body = 'x'.repeat(300_000);
    const server = await toy((socket) => socket.write(answerOf(body)));
    const client = clientOf(server);
    for (let nth = 0; nth < 3; nth += 1) assert.equal((await client.exchange(REQUEST)).text, body);
  });

  it('gives each of two calls in sequence its own answer, on one connection', async () => {
    const server = await toy((socket, nth) => socket.write(answerOf(`answer ${nth}`)));
    const client = clientOf(server);
    assert.equal((await client.exchange(REQUEST)).text, 'answer 1');
    assert.equal((await client.exchange(REQUEST)).text, 'answer 2');
    assert.equal(server.connections(), 1);
  });

  it('needs no length where there is no body', async () => {
    const server = await toy((socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'));
    assert.deepEqual(await clientOf(server).exchange(REQUEST), { status: 204, text: '' });
  });

  it('refuses what it does not read, says what, and goes on with a new connection', async () => {
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n';
    const odd = [chunked, 'HTTP/1.1 200 OK\r\n\r\n', 'HTTP/1.0 200 OK\r\n\r\n', `${answerOf('a')}b`];
    const server = await toy((socket, nth) => socket.write(odd[nth - 1] ?? answerOf(BODY)));
    const client = clientOf(server);
    await assert.rejects(client.exchange(REQUEST), /not supported: transfer-encoding chunked/);
    await assert.rejects(client.exchange(REQUEST), /not supported: transfer-encoding none, no length/);
    await assert.rejects(client.exchange(REQUEST), /not supported: http\/1\.0/);
    await assert.rejects(client.exchange(REQUEST), /longer than it says/);
    assert.equal((await client.exchange(REQUEST)).text, BODY);
    assert.equal(server.connections(), 5);
  });

  it('fails a call whose connection ends in the middle, and connects again for the next', async () => {
    for (const end of [(socket: Socket) => socket.end(), (socket: Socket) => socket.resetAndDestroy()]) {
      const whole = answerOf(BODY);
      const server = await toy((socket, nth) => {
        if (nth % 2 === 1) socket.write(whole.slice(0, -5), () => end(socket));
        else socket.write(whole);
      });
      const client = clientOf(server);
      for (const round of [1, 2]) {
        await assert.rejects(client.exchange(REQUEST), /closed|ECONNRESET/);
        assert.equal((await client.exchange(REQUEST)).text, BODY, `round ${round}`);
      }
    }
  });

  it('connects again after an answer that ends the connection', async () => {
    const server = await toy((socket) => socket.write(answerOf(BODY, 'Connection: close\r\n')));
    const client = clientOf(server);
    for (const calls of [1, 2, 3]) {
      assert.equal((await client.exchange(REQUEST)).text, BODY);
      assert.equal(server.connections(), calls);
    }
  });

  it('fails a call that finds no server', async () => {
    const server = await toy(() => undefined);
    for (const end of ends.splice(0)) end();
    await assert.rejects(clientOf(server).exchange(REQUEST), /ECONNREFUSED/);
  });

  it('fails the call under way and every later one when it is closed', async () => {
    const server = await toy(() => undefined);
    const client = clientOf(server);
    const answer = client.exchange(REQUEST);
    while (server.received() === '') await immediate();
    await assert.rejects(client.exchange(REQUEST), /a call is under way/);
    client.close();
    await assert.rejects(answer, /the client is closed/);
    await assert.rejects(client.exchange(REQUEST), /the client is closed/);
    assert.equal(server.connections(), 1);
  });
});

describe('a caller of the load harness', { timeout: 30_000 }, () => {
  it('sends the same bytes whether the body is a string, a buffer, or a buffer sent before', async () => {
    const server = await toy((socket) => socket.write(answerOf(BODY)));
    const caller = new Caller(server.base, 'secret');
    const body = Buffer.from('{"kind":"ü"}');
    for (const each of [body.toString(), body, body]) await caller.call('POST', '/a', each);
    await caller.call('POST', '/b', body);
    await caller.call('GET', '/a');
    await caller.close();
    const fields = `host: ${server.base.slice(7)}\r\nconnection: keep-alive\r\nauthorization: Bearer secret\r\n`;
    const tail = `content-type: application/json\r\ncontent-length: 13\r\n\r\n${body.toString('latin1')}`;
    const posted = `POST /a HTTP/1.1\r\n${fields}${tail}`;
    const expected = `${posted.repeat(3)}${posted.replace('/a', '/b')}GET /a HTTP/1.1\r\n${fields}\r\n`;
    assert.equal(server.received(), expected);
  });
});
