import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openRaw, send, startToy, until } from './toy-service.js';

test('an error is a problem document with its code, request id and further members', async (t) => {
  const { port } = await startToy(t);
  const { status, headers, json } = await send(port, 'POST /v1/fail', '{"code":"LEASE_LOST"}', {
    headers: { 'x-request-id': 'r-1' },
  });
  assert.equal(status, 409);
  assert.equal(headers['content-type'], 'application/problem+json; charset=utf-8');
  assert.deepEqual(json, {
    settledAs: 'nack',
    type: 'urn:stint:error:LEASE_LOST',
    title: 'Lease lost',
    status: 409,
    detail: 'as told',
    code: 'LEASE_LOST',
    requestId: 'r-1',
  });
});

test('C76: Retry-After is never earlier than asked and spread over half as much again', async (t) => {
  const { port } = await startToy(t);
  const waits = new Set<number>();
  for (let i = 0; i < 60; i++) {
    const { status, headers } = await send(port, 'POST /v1/fail', '{"code":"BACKLOG_FULL","retryAfter":10}');
    assert.equal(status, 429);
    waits.add(Number(headers['retry-after']));
  }
  for (const wait of waits) assert.ok(Number.isInteger(wait) && wait >= 10 && wait <= 15, String(wait));
  assert.ok(waits.size > 1);
  const { status, headers } = await send(port, 'POST /v1/fail', '{"code":"UNAVAILABLE"}');
  assert.equal(status, 503);
  assert.ok(Number(headers['retry-after']) >= 1);
});

test('who is not known is told how to say who it is, and who may not is told which scope it lacks', async (t) => {
  const { port } = await startToy(t);
  const stranger = await send(port, 'POST /v1/fail', '{', { headers: { authorization: 'Bearer who' } });
  assert.deepEqual([stranger.status, stranger.headers['www-authenticate']], [401, 'Bearer']);
  const powerless = await send(port, 'POST /v1/fail', '{', { headers: { authorization: 'Bearer none' } });
  assert.deepEqual([powerless.status, powerless.json.code], [403, 'PERMISSION_DENIED']);
});

test('a fault of the service shows nothing of itself but the id that finds it in the log', async (t) => {
  const { port, logLines } = await startToy(t);
  for (const code of ['CRASH', 'BAD_OUTPUT']) {
    const { status, json, text } = await send(port, 'POST /v1/fail', JSON.stringify({ code }));
    assert.deepEqual([status, json.code, json.detail], [500, 'INTERNAL', 'internal error']);
    assert.doesNotMatch(text, /secret|needed/);
    assert.ok(logLines.some((line) => line.includes(json.requestId)));
  }
});

test('an unknown path is 404 and an unknown method of a known path 405 with Allow', async (t) => {
  const { port } = await startToy(t);
  const lost = await send(port, 'GET /v1/nowhere');
  assert.deepEqual([lost.status, lost.json.code], [404, 'NOT_FOUND']);
  const allowed: Record<string, string> = {
    'PATCH /v1/queues/mail': 'DELETE',
    'POST /v1/queues/mail': 'DELETE',
    'GET /v1/wait': 'POST',
    'PROPFIND /v1/wait': 'POST',
    'OPTIONS /v1/queues/mail/found': 'GET, HEAD',
    'POST /livez': 'GET, HEAD',
  };
  for (const [target, allow] of Object.entries(allowed)) {
    const { status, json, headers } = await send(port, target);
    assert.deepEqual([status, json.code, headers.allow], [405, 'METHOD_NOT_ALLOWED', allow], target);
  }
});

test('headers past 16 KiB are 431 and bytes that are no request 400, each a problem document', async (t) => {
  const { port } = await startToy(t);
  const bytes: [string, RegExp, string][] = [
    [`GET /livez HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /, 'HEADERS_TOO_LARGE'],
    ['what is this\r\n\r\n', /^HTTP\/1\.1 400 /, 'INVALID_ARGUMENT'],
    [
      'GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      /^HTTP\/1\.1 400 /,
      'INVALID_ARGUMENT',
    ],
  ];
  for (const [request, line, code] of bytes) {
    const raw = await openRaw(port);
    raw.socket.write(request);
    await until('an answer', () => raw.closed);
    assert.match(raw.received, line);
    assert.match(raw.received, /content-type: application\/problem\+json/);
    assert.equal(JSON.parse(raw.received.split('\r\n\r\n')[1]!).code, code);
  }
});

test('a body that does not arrive in time is 408', async (t) => {
  const { port } = await startToy(t, { bodySeconds: 0.1 });
  const raw = await openRaw(port);
  raw.socket.write('POST /v1/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 2\r\n\r\n{');
  await until('an answer', () => raw.received.includes('REQUEST_TIMEOUT'));
  assert.match(raw.received, /^HTTP\/1\.1 408 /);
  raw.socket.destroy();
});

test('headers that do not arrive in time are 408', async (t) => {
  const { port } = await startToy(t, { headersSeconds: 0.2 });
  const raw = await openRaw(port);
  raw.socket.write('POST /v1/wait HTTP/1.1\r\nHost: x\r\n');
  await until('an answer', () => raw.closed);
  assert.match(raw.received, /^HTTP\/1\.1 408 [^]*REQUEST_TIMEOUT/);
});

test('bytes that are no request do not cost the answers to the requests before them', async (t) => {
  const { toy, port } = await startToy(t);
  const raw = await openRaw(port);
  let finish = (): void => undefined;
  toy.onWait = () => new Promise((resolve) => (finish = resolve));
  raw.socket.write('POST /v1/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\n\r\n{"stray":"body"}');
  await until('the operation to run', () => toy.departures.length === 1);
  finish();
  await until('the end', () => raw.closed);
  assert.match(raw.received, /^HTTP\/1\.1 200 [^]*\r\n\r\n\{"jobs":\[\]\}$/);
});
