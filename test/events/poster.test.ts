import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { createPoster, type PosterParts } from '../../src/events/poster.js';
import { Departure } from '../../src/core/departure.js';
import { type Certificates, createCertificates, WITHOUT_OPENSSL } from '../helpers/certificates.js';
import { type Answer, type Endpoint, startEndpoint } from './endpoint.js';

const NOT_REACHABLE = { error: 'not reachable' };

describe('a POST', () => {
  const opened: { close(): Promise<unknown> }[] = [];

  after(() => Promise.all(opened.map((each) => each.close())));

  const endpoint = async (how?: Answer | number): Promise<Endpoint> => {
    const started = await startEndpoint(how);
    opened.push(started);
    return started;
  };
  const server = async (onSocket: (socket: net.Socket) => void): Promise<number> => {
    const sockets = new Set<net.Socket>();
    const started = net.createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      onSocket(socket);
    });
    started.listen(0, '127.0.0.1');
    await once(started, 'listening');
    opened.push({
      close: () => {
        for (const socket of sockets) socket.destroy();
        return new Promise((resolve) => started.close(resolve));
      },
    });
    return (started.address() as AddressInfo).port;
  };
  const post = (url: string, parts: Partial<PosterParts> = {}) =>
    createPoster({ allowedNetworks: ['127.0.0.0/8'], ...parts }).post({
      url,
      headers: { 'webhook-id': '1' },
      body: '{}',
    });
  const named = (...addresses: string[]) => ({ resolve: () => Promise.resolve(addresses) });

  it('answers the status, whatever it is', async () => {
    for (const status of [200, 201, 204, 304, 400, 409, 410, 500])
      assert.deepEqual(await post((await endpoint(status)).url), { status, retryAfter: undefined });
  });

  it('follows no redirect', async () => {
    const target = await endpoint();
    for (const status of [301, 302, 303, 307, 308]) {
      const from = await endpoint((_, response) => void response.writeHead(status, { location: target.url }).end());
      assert.deepEqual(await post(from.url), { status, retryAfter: undefined });
    }
    assert.equal(target.connections(), 0);
  });

  it('to an address that is not public never connects, however the URL spells it', async () => {
    const target = await endpoint();
    const { port } = target;
    const closed = createPoster({ allowedNetworks: [] });
    for (const host of [
      '127.0.0.1',
      '127.1',
      '0x7f000001',
      '2130706433',
      '[::1]',
      '[::ffff:127.0.0.1]',
      'localhost',
      '0.0.0.0',
    ])
      for (const scheme of ['http', 'https'])
        assert.deepEqual(
          await closed.post({ url: `${scheme}://${host}:${port}/`, headers: {}, body: '{}' }),
          NOT_REACHABLE,
          host,
        );
    assert.equal(target.connections(), 0);
  });

  it('to a name that leads to such an address never connects, and to none but the allowed where it leads to several', async () => {
    const target = await endpoint();
    const url = `http://inside.example:${target.port}/`;
    for (const addresses of [['127.0.0.1'], ['::1'], ['::ffff:127.0.0.1'], ['169.254.169.254', '127.0.0.1'], []])
      assert.deepEqual(await post(url, { allowedNetworks: [], ...named(...addresses) }), NOT_REACHABLE);
    assert.equal(target.connections(), 0);
    assert.deepEqual(await post(url, named('10.255.255.1', '127.0.0.1')), { status: 200, retryAfter: undefined });
    assert.equal(target.connections(), 1);
    assert.equal(target.received[0]!.headers.host, `inside.example:${target.port}`);
  });

  it('resolves the name once, and connects to what was judged, whatever the name leads to later', async () => {
    const target = await endpoint();
    let lookUps = 0;
    const rebinding = { resolve: () => Promise.resolve((lookUps += 1) === 1 ? ['127.0.0.1'] : ['169.254.169.254']) };
    assert.deepEqual(await post(`http://rebinding.example:${target.port}/`, rebinding), {
      status: 200,
      retryAfter: undefined,
    });
    assert.equal(lookUps, 1);
  });

  it('says the same of an address that is not allowed, a port that is closed and a name that is unknown', async () => {
    const gone = await startEndpoint();
    await gone.close();
    const unknown = { resolve: () => Promise.reject(new Error('ENOTFOUND')) };
    for (const answer of [
      await post(gone.url),
      await post('http://10.0.0.1/'),
      await post('http://unknown.example/', unknown),
    ])
      assert.deepEqual(answer, NOT_REACHABLE);
  });

  it('is over at its deadline: unaccepted name, silence, slow headers, a trickling body', async () => {
    const trickle = (head: string) => (socket: net.Socket) => {
      socket.write(head);
      const timer = setInterval(() => socket.write('x'), 20);
      socket.on('close', () => clearInterval(timer));
    };
    const silent = await server(() => undefined);
    const slowHeaders = await server(trickle('HTTP/1.1 200 OK\r\nx-slow: '));
    const slowBody = await server(trickle('HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n'));
    const late = await endpoint((_, response) => void setTimeout(() => response.writeHead(200).end(), 600));
    const never = { resolve: () => new Promise<string[]>(() => undefined) };
    const began = performance.now();
    const answers = await Promise.all([
      post('http://slow.example/', { deadline: 300, ...never }),
      ...[silent, slowHeaders, slowBody, late.port].map((port) => post(`http://127.0.0.1:${port}/`, { deadline: 300 })),
    ]);
    assert.deepEqual(answers, Array(5).fill({ error: 'timeout' }));
    assert.ok(performance.now() - began < 2_000);
  });

  it('needs a whole answer: one that is cut short, or is none, is a failure', async () => {
    const cut = await server((socket) =>
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this')),
    );
    const garbled = await server((socket) => socket.end('\0\0\0\x08R\0\0\0\0'));
    const silent = await server((socket) => socket.once('data', () => socket.destroy()));
    for (const port of [cut, garbled, silent])
      assert.deepEqual(await post(`http://127.0.0.1:${port}/`), { error: 'no answer' });
  });

  it('reads no more of an answer than 4 KiB, and unpacks nothing', async () => {
    let sent = 0;
    const endless = await endpoint((_, response) => {
      response.writeHead(200);
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384, 120))) sent += 16_384;
        if (!response.destroyed) response.once('drain', more);
      };
      more();
    });
    assert.deepEqual(await post(endless.url), { status: 200, retryAfter: undefined });
    assert.ok(sent < 16 * 1024 * 1024, String(sent));
    const bomb = gzipSync(Buffer.alloc(50 * 1024 * 1024));
    const packed = await endpoint(
      (_, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb),
    );
    const before = process.memoryUsage().rss;
    assert.deepEqual(await post(packed.url), { status: 200, retryAfter: undefined });
    assert.ok(process.memoryUsage().rss - before < 40 * 1024 * 1024);
  });

  it('sends no cookie, and keeps none', async () => {
    const target = await endpoint((_, response) => void response.writeHead(200, { 'set-cookie': 'a=1' }).end());
    const poster = createPoster({ allowedNetworks: ['127.0.0.0/8'] });
    for (let n = 0; n < 2; n += 1) await poster.post({ url: target.url, headers: {}, body: '{}' });
    assert.deepEqual(
      target.received.map(({ headers }) => headers.cookie),
      [undefined, undefined],
    );
    assert.equal(target.connections(), 2);
  });

  it('ends when its sender goes', async () => {
    const silent = await server(() => undefined);
    const departure = new Departure();
    const poster = createPoster({ allowedNetworks: ['127.0.0.0/8'] });
    const answer = poster.post({ url: `http://127.0.0.1:${silent}/`, headers: {}, body: '{}', departure });
    departure.tell();
    assert.deepEqual(await answer, { error: 'ended' });
  });

  it('tells how long it is asked to wait', async () => {
    const busy = await endpoint((_, response) => void response.writeHead(429, { 'retry-after': '7' }).end());
    assert.deepEqual(await post(busy.url), { status: 429, retryAfter: 7_000 });
  });

  describe('over TLS', { skip: WITHOUT_OPENSSL }, () => {
    let certificates: Certificates;
    let port: number;
    let authority: string;

    before(async () => {
      certificates = await createCertificates();
      certificates.authority('authority');
      certificates.sign('hook', 'authority');
      const read = (name: string): string => readFileSync(certificates.file(name), 'utf8');
      authority = read('authority.crt');
      const secure = https.createServer({ cert: read('hook.crt'), key: read('hook.key') }, (_, response) =>
        response.end(),
      );
      secure.listen(0, '127.0.0.1');
      await once(secure, 'listening');
      opened.push({ close: () => new Promise((resolve) => secure.close(resolve)) });
      port = (secure.address() as AddressInfo).port;
    });

    after(() => certificates.remove());

    it('takes a certificate of an authority that is trusted, for the host of the URL', async () => {
      const trusted = { authorities: authority };
      assert.deepEqual(await post(`https://127.0.0.1:${port}/`, trusted), { status: 200, retryAfter: undefined });
      assert.deepEqual(await post(`https://other.example:${port}/`, { ...trusted, ...named('127.0.0.1') }), {
        error: 'tls',
      });
    });

    it('takes no other, and no plain text', async () => {
      assert.deepEqual(await post(`https://127.0.0.1:${port}/`), { error: 'tls' });
      const plain = await endpoint();
      assert.deepEqual(await post(`https://127.0.0.1:${plain.port}/`, { authorities: authority }), { error: 'tls' });
    });
  });
});
