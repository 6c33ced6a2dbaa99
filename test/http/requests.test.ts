import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { openRaw, send, startToy, until } from './toy-service.js';

const ECHO = 'POST /v1/queues/mail/echo';

test('path, query, body, headers and fixed values become one input', async (t) => {
  const { toy, port } = await startToy(t);
  const echoed = await send(port, ECHO, '{"payload": {"b":1.0,"a":9007199254740993}, "delay": "1m"}', {
    headers: { 'idempotency-key': 'k-1' },
  });
  assert.equal(echoed.status, 201);
  assert.equal(
    echoed.text,
    '{"queue":"mail","payload":{"b":1.0,"a":9007199254740993},"delay":"60s","idempotencyKey":"k-1"}',
  );
  assert.deepEqual(toy.inputs[0], {
    queue: 'mail',
    payload: '{"b":1.0,"a":9007199254740993}',
    delay: 60_000,
    idempotencyKey: 'k-1',
  });
  const found = await send(port, 'GET /v1/queues/mail/found?limit=7&all=true');
  assert.deepEqual(found.json, { queue: 'mail', limit: 7 });
  const fixed = await send(port, 'POST /v1/fixed/mail', '{}');
  assert.deepEqual(fixed.json, { queue: 'mail', note: 'fixed' });
});

test('an answer says its media type, is not to be stored, and bears the request id', async (t) => {
  const { port } = await startToy(t);
  const { headers, status } = await send(port, ECHO, '{"note":"again"}', { headers: { 'x-request-id': 'call-17' } });
  assert.equal(status, 200);
  assert.equal(headers['content-type'], 'application/json; charset=utf-8');
  assert.equal(headers['cache-control'], 'no-store');
  assert.equal(headers['x-request-id'], 'call-17');
  assert.equal(headers['x-content-type-options'], 'nosniff');
  for (const id of ['x'.repeat(129), 'two words', 'caf\u00e9']) {
    const { headers: other } = await send(port, ECHO, '{}', { headers: { 'x-request-id': id } });
    assert.match(other['x-request-id'] as string, /^[\w-]{12}-[0-9a-z]+$/);
  }
});

test('a route with a form of its own takes and answers in that form', async (t) => {
  const { port } = await startToy(t);
  assert.deepEqual((await send(port, 'POST /v1/double/a1', '{"by": 4}')).json, { only: 8 });
  const refused = await send(port, 'POST /v1/double/a1', '{"items": [4]}');
  assert.equal(refused.status, 400);
});

test('C06: a route without a body takes a JSON content type with no body, an empty one, or {}', async (t) => {
  const { port } = await startToy(t);
  const type = { 'content-type': 'application/json' };
  for (const target of ['DELETE /v1/queues/mail', 'POST /v1/queues/mail/pause', ECHO]) {
    const answers = [
      await send(port, target, undefined, { headers: type }),
      await send(port, target, undefined, { headers: { ...type, 'content-length': '0' } }),
      await send(port, target, '', { headers: { ...type, 'transfer-encoding': 'chunked' } }),
      await send(port, target, '{}'),
      await send(port, target, ' { } \n'),
    ];
    for (const { status, text } of answers) assert.ok(status === 200 || status === 201, `${target}: ${status} ${text}`);
  }
});

test('C06: a route that needs a body says what is missing when it is empty', async (t) => {
  const { port } = await startToy(t);
  const { status, json } = await send(port, 'POST /v1/double/a1', '');
  assert.equal(status, 400);
  assert.equal(json.errors[0].field, 'by');
});

test('a route that takes its input from the query refuses a body that says something', async (t) => {
  const { port } = await startToy(t);
  assert.equal((await send(port, 'DELETE /v1/queues/mail', '{"force":true}')).status, 400);
  assert.equal((await send(port, 'GET /v1/queues/mail/found', 'x')).status, 400);
});

test('C09: a body that is not UTF-8 JSON is refused, never repaired', async (t) => {
  const { toy, port } = await startToy(t);
  const around = (bytes: number[]) => Buffer.concat([Buffer.from('{"note":"'), Buffer.from(bytes), Buffer.from('"}')]);
  const refused: [Buffer, Record<string, string>, number][] = [
    [around([0xff]), {}, 400],
    [around([0xc0, 0x80]), {}, 400],
    [around([0xed, 0xa0, 0x80]), {}, 400],
    [Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{}')]), {}, 400],
    [around([0xe9]), { 'content-type': 'application/json; charset=iso-8859-1' }, 415],
    [gzipSync('{}'), {}, 400],
    [gzipSync('{}'), { 'content-encoding': 'gzip' }, 415],
  ];
  for (const [body, headers, status] of refused)
    assert.equal((await send(port, ECHO, body, { headers })).status, status);
  assert.equal(toy.inputs.length, 0);
  const kept = await send(port, ECHO, '{"note":"\uffff"}');
  assert.equal(kept.json.note, '\uffff');
});

test('C11: every spelling of a JSON content type is JSON and every other one is 415', async (t) => {
  const { port } = await startToy(t);
  const known = [
    'APPLICATION/JSON',
    'application/json ;',
    'application/json\t; x',
    'application/json; charset="UTF-8"',
  ];
  for (const type of [...known, 'application/json;charset=utf8', 'application/cloudevents+json']) {
    const { status, json } = await send(port, ECHO, '{"wrong":1}', { headers: { 'content-type': type } });
    assert.equal(status, 400, type);
    assert.equal(json.errors[0].field, 'wrong', type);
  }
  const others = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'x',
    'application/json, text/plain',
  ];
  for (const type of [...others, 'application/json; charset=utf-16']) {
    const { status, json } = await send(port, ECHO, '{"wrong":1}', { headers: { 'content-type': type } });
    assert.equal(status, 415, type);
    assert.equal(json.code, 'UNSUPPORTED_MEDIA_TYPE');
  }
});

test('C11: a body without a content type is taken as JSON', async (t) => {
  const { port } = await startToy(t);
  const raw = await openRaw(port);
  raw.socket.write(
    'POST /v1/queues/mail/echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 12\r\n\r\n{"note":"x"}',
  );
  await until('an answer', () => raw.received.includes('"note":"x"'));
  assert.match(raw.received, /^HTTP\/1\.1 201 /);
});

test('C11: names of the prototype are unknown fields, data in a payload, and usable names', async (t) => {
  const { port } = await startToy(t);
  for (const name of ['__proto__', 'constructor', 'hasOwnProperty', 'toString']) {
    const unknown = await send(port, ECHO, `{"${name}": {"polluted": true}}`);
    assert.deepEqual([unknown.status, unknown.json.errors[0].field], [400, name]);
    const query = await send(port, `GET /v1/queues/mail/found?${name}=1`);
    assert.deepEqual([query.status, query.json.errors[0].field], [400, name]);
    const payload = await send(port, ECHO, `{"payload":{"${name}":{"polluted":true}}}`);
    assert.equal(payload.text, `{"queue":"mail","payload":{"${name}":{"polluted":true}}}`);
  }
  assert.equal((await send(port, 'GET /v1/queues/constructor/found')).status, 200);
  assert.equal((await send(port, 'GET /v1/queues/__proto__/found')).status, 400);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
});

test('a field that the route does not take is refused by name', async (t) => {
  const { port } = await startToy(t);
  const refused: [string, string | undefined, string][] = [
    [ECHO, '{"queue":"other"}', 'queue'],
    [ECHO, '{"nope":1}', 'nope'],
    [`${ECHO}?note=x`, '{}', 'note'],
    ['POST /v1/fixed/mail', '{"note":"mine"}', 'note'],
    ['POST /v1/fixed/mail', '{"delay":"1s"}', 'delay'],
    ['GET /v1/queues/mail/found?nope=1', undefined, 'nope'],
    ['GET /v1/queues/mail/found?queue=other', undefined, 'queue'],
    ['GET /v1/queues/mail/found?limit=1&limit=2', undefined, 'limit'],
    ['GET /v1/queues/mail/found?limit=0', undefined, 'limit'],
    ['GET /v1/queues/mail/found?limit=1.5', undefined, 'limit'],
    ['GET /v1/queues/a%2Fb/found', undefined, 'queue'],
  ];
  for (const [target, body, field] of refused) {
    const { status, json } = await send(port, target, body);
    assert.deepEqual(
      [status, json.code, json.errors?.[0].field],
      [400, 'INVALID_ARGUMENT', field],
      `${target} ${body}`,
    );
  }
});

test('a header and a body that say different things are refused by both names', async (t) => {
  const { toy, port } = await startToy(t);
  const headers = { 'idempotency-key': 'one' };
  const { status, json } = await send(port, ECHO, '{"idempotencyKey":"two"}', { headers });
  assert.equal(status, 400);
  assert.deepEqual(
    json.errors.map((error: { field: string }) => error.field),
    ['idempotencyKey', 'idempotency-key'],
  );
  assert.equal((await send(port, ECHO, '{"idempotencyKey":"one"}', { headers })).status, 201);
  const twice = await send(port, ECHO, '{}', { headers: { 'idempotency-key': ['one', 'two'] as never } });
  assert.deepEqual([twice.status, twice.json.errors[0].field], [400, 'idempotency-key']);
  assert.equal(toy.inputs.length, 1);
});

test('a target that is not well percent-encoded or too long is 400', async (t) => {
  const { port } = await startToy(t);
  const targets = [
    '/v1/queues/%ZZ/found',
    '/v1/queues/%ff/found',
    '/v1/queues/mail/found?limit=%ZZ',
    `/v1/queues/${'a'.repeat(1025)}/found`,
  ];
  for (const target of targets) {
    const { status, json, headers } = await send(port, `GET ${target}`);
    assert.deepEqual([status, json.code], [400, 'INVALID_ARGUMENT'], target);
    assert.equal(headers['content-type'], 'application/problem+json; charset=utf-8');
  }
  const long = await send(port, `GET /v1/queues/${'a'.repeat(1024)}/found`);
  assert.equal(long.json.errors[0].field, 'queue');
});

test('a refused body is read to its end, so that the client sees the answer', async (t) => {
  const { port } = await startToy(t);
  const big = Buffer.alloc(10 * 1024 * 1024, ' ');
  const chunked = { 'transfer-encoding': 'chunked' };
  for (const headers of [{}, chunked]) {
    const tooLarge = await send(port, ECHO, big, { headers });
    assert.deepEqual([tooLarge.status, tooLarge.json.code], [413, 'PAYLOAD_TOO_LARGE']);
    const stranger = await send(port, ECHO, big, { headers: { ...headers, authorization: 'Bearer who' } });
    assert.equal(stranger.status, 401);
    const lost = await send(port, 'POST /v1/nowhere', big, { headers });
    assert.equal(lost.status, 404);
  }
});

test('a body is asked for only when its caller may send it', async (t) => {
  const { port } = await startToy(t);
  const head = (authorization: string) =>
    `POST /v1/queues/mail/echo HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\n` +
    `Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
  const welcome = await openRaw(port);
  welcome.socket.write(head('Bearer all'));
  await until('leave to send', () => welcome.received.startsWith('HTTP/1.1 100 Continue\r\n\r\n'));
  welcome.socket.write('{}');
  await until('an answer', () => welcome.received.includes('HTTP/1.1 201 '));

  const stranger = await openRaw(port);
  stranger.socket.write(head('Bearer who'));
  await until('a refusal', () => stranger.received.includes('UNAUTHENTICATED'));
  assert.match(stranger.received, /^HTTP\/1\.1 401 /);
  assert.match(stranger.received, /connection: close/i);
});

test('a body cut short leaves the server as it was', async (t) => {
  const { toy, port } = await startToy(t);
  for (const rest of ['Content-Length: 100\r\n\r\n{"note":', 'Transfer-Encoding: chunked\r\n\r\n5\r\n{"not']) {
    const raw = await openRaw(port);
    raw.socket.write(`POST /v1/queues/mail/echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\n${rest}`);
    await new Promise((resolve) => raw.socket.write('', resolve));
    raw.socket.destroy();
  }
  assert.equal((await send(port, ECHO, '{}')).status, 201);
  assert.equal(toy.inputs.length, 1);
});

test('C72: an HTTP/1.0 client is answered whole and its connection closed', async (t) => {
  const { port } = await startToy(t);
  const raw = await openRaw(port);
  raw.socket.write('POST /v1/wait HTTP/1.0\r\nAuthorization: Bearer all\r\nContent-Length: 2\r\n\r\n{}');
  await until('the end', () => raw.closed);
  assert.match(raw.received, /^HTTP\/1\.[01] 200 /);
  assert.doesNotMatch(raw.received, /transfer-encoding/i);
  assert.ok(raw.received.endsWith('\r\n\r\n{"jobs":[]}'));
});
