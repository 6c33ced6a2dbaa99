import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { test } from 'node:test';
import { openRaw, type RawConnection, send, startToy, until } from './toy-service.js';

const KEEP = 'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n';
const WAIT = 'POST /v1/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 2\r\n\r\n{}';

test('C27: shutting down answers what runs, closes what idles, and waits neither for keep-alive nor for half-sent requests', async (t) => {
  const { toy, port, server } = await startToy(t);
  const idle = await Promise.all(Array.from({ length: 100 }, () => openRaw(port)));
  for (const raw of idle) raw.socket.write(KEEP);
  await until('100 answers', () => idle.every((raw) => raw.received.includes('"ok"')));
  const silent = await openRaw(port);
  const slowHeaders = await openRaw(port);
  slowHeaders.socket.write('POST /v1/wait HTTP/1.1\r\nHost');
  const slowBody = await openRaw(port);
  slowBody.socket.write(WAIT.slice(0, -1));

  const waiting: RawConnection = await openRaw(port);
  let wake = (): void => undefined;
  toy.onWait = () => new Promise((resolve) => (wake = resolve));
  waiting.socket.write(WAIT);
  await until('a running request', () => toy.departures.length === 1);

  const started = performance.now();
  const beforeClose = () => Promise.resolve(wake());
  await server.drain({ delaySeconds: 0, deadlineSeconds: 4, beforeClose });
  assert.ok(performance.now() - started < 4_000);
  assert.match(waiting.received, /^HTTP\/1\.1 200 [^]*connection: close[^]*\{"jobs":\[\]\}$/i);
  assert.equal(toy.departures[0]!.happened, false);
  await until(
    'every connection to close',
    () => [...idle, silent, slowHeaders, slowBody].every((raw) => raw.closed),
    1,
  );
});

test('C27: without half-sent requests shutting down takes no longer than the requests that run', async (t) => {
  const { port, server } = await startToy(t);
  const agent = new Agent({ keepAlive: true });
  await send(port, 'GET /livez', undefined, { agent });
  const started = performance.now();
  await server.drain({ delaySeconds: 0, deadlineSeconds: 8, beforeClose: () => Promise.resolve() });
  assert.ok(performance.now() - started < 1_000);
  agent.destroy();
});

test('C27: readiness turns false while requests are still served, and answers close their connections', async (t) => {
  const { port, server } = await startToy(t);
  assert.equal((await send(port, 'GET /readyz')).status, 200);
  const drained = server.drain({ delaySeconds: 0.5, deadlineSeconds: 5, beforeClose: () => Promise.resolve() });
  const { status, json } = await send(port, 'GET /readyz');
  assert.deepEqual([status, json], [503, { status: 'unavailable', detail: 'shutting down' }]);
  const served = await send(port, 'POST /v1/wait', '{}');
  assert.deepEqual([served.status, served.headers.connection], [200, 'close']);
  await drained;
  await assert.rejects(send(port, 'GET /livez'), { code: 'ECONNREFUSED' });
});

test('C27: a request that comes on a kept connection during shutdown is 503 and told when to come again', async (t) => {
  const { toy, port, server } = await startToy(t);
  const half = await openRaw(port);
  half.socket.write(WAIT.slice(0, 10));
  const probe = await openRaw(port);
  probe.socket.write('GET /livez HTTP/1.1\r\nHo');
  await send(port, 'GET /livez');
  const drained = server.drain({
    delaySeconds: 0,
    deadlineSeconds: 5,
    beforeClose: async () => {
      half.socket.write(WAIT.slice(10));
      probe.socket.write('st: x\r\n\r\n');
      await until('a refusal', () => half.closed && probe.closed);
    },
  });
  await drained;
  assert.match(half.received, /^HTTP\/1\.1 503 [^]*UNAVAILABLE/);
  assert.match(half.received, /retry-after: [12]\r\n/i);
  assert.match(half.received, /connection: close\r\n/i);
  assert.match(probe.received, /^HTTP\/1\.1 200 /);
  assert.equal(toy.departures.length, 0);
});

test('at the deadline whatever still runs is cut off and told so', async (t) => {
  const { toy, port, server } = await startToy(t);
  toy.onWait = () => new Promise(() => undefined);
  const raw = await openRaw(port);
  raw.socket.write(WAIT);
  await until('a running request', () => toy.departures.length === 1);
  const started = performance.now();
  await server.drain({ delaySeconds: 0, deadlineSeconds: 1, beforeClose: () => new Promise(() => undefined) });
  assert.ok(performance.now() - started < 1_000);
  await until('abort', () => toy.departures[0]!.happened);
});

test('a failure to wake the long polls is reported, after the connections are dealt with', async (t) => {
  const { port, server } = await startToy(t);
  const beforeClose = () => Promise.reject(new Error('no wake-up'));
  await assert.rejects(server.drain({ delaySeconds: 0, deadlineSeconds: 1, beforeClose }), /no wake-up/);
  await assert.rejects(send(port, 'GET /livez'), { code: 'ECONNREFUSED' });
});

test('C71: an idle connection is kept as long as configured, then closed', async (t) => {
  const { port } = await startToy(t, { keepAliveSeconds: 0.5 });
  const raw = await openRaw(port);
  raw.socket.write(KEEP);
  await until('an answer', () => raw.received.includes('"ok"'));
  assert.match(raw.received, /connection: keep-alive\r\n/i);
  const answered = performance.now();
  await until('the close', () => raw.closed, 3);
  assert.ok(performance.now() - answered > 400);
});

test('C71: a connection that idled is used again without a reset, also past the time that headers may take', async (t) => {
  const { port } = await startToy(t, { keepAliveSeconds: 3, headersSeconds: 0.3 });
  const raw = await openRaw(port);
  raw.socket.write(KEEP);
  await until('an answer', () => raw.received.includes('"ok"'));
  const answered = performance.now();
  await until('an idle second', () => performance.now() - answered > 1_000);
  assert.equal(raw.closed, false);
  raw.received = '';
  raw.socket.write(KEEP);
  await until('a second answer', () => raw.received.includes('"ok"'));
});
