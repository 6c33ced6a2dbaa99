import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { startMetricsServer } from '../../src/http/metrics-server.js';
import { createMetrics } from '../../src/observability/metrics.js';
import { type Answered, openRaw, send, startToy, until } from '../http/toy-service.js';

const STRICTEST = "default-src 'none'; frame-ancestors 'none'";

function assertHardened(headers: IncomingHttpHeaders, what: string): void {
  assert.deepEqual(
    [
      headers['content-security-policy'],
      headers['x-content-type-options'],
      headers['referrer-policy'],
      headers['x-frame-options'],
      headers['cache-control'],
    ],
    [STRICTEST, 'nosniff', 'no-referrer', 'DENY', 'no-store'],
    what,
  );
  for (const name in headers) assert.doesNotMatch(name, /^access-control-|^server$|^x-powered-by$/, what);
}

test('every answer of the API, of the probes and of what went wrong bears the headers of data that is no page', async (t) => {
  const { port } = await startToy(t, { ready: () => Promise.resolve({ ok: false, detail: 'away' }) });
  const origin = { origin: 'https://console.example.com' };
  const answers: [number, Promise<Answered>][] = [
    [201, send(port, 'POST /v1/queues/mail/echo', '{}', { headers: origin })],
    [200, send(port, 'GET /v1/queues/mail/found')],
    [400, send(port, 'POST /v1/queues/mail/echo', '{')],
    [401, send(port, 'POST /v1/wait', '{}', { headers: { authorization: 'Bearer x' } })],
    [403, send(port, 'POST /v1/wait', '{}', { headers: { authorization: 'Bearer none' } })],
    [404, send(port, 'GET /nowhere')],
    [405, send(port, 'PUT /v1/wait', '{}')],
    [
      405,
      send(port, 'OPTIONS /v1/wait', undefined, { headers: { ...origin, 'access-control-request-method': 'POST' } }),
    ],
    [409, send(port, 'POST /v1/fail', '{"code":"CONFLICT"}')],
    [413, send(port, 'POST /v1/wait', Buffer.alloc(8 * 1024 * 1024 + 1, 32))],
    [415, send(port, 'POST /v1/wait', 'x', { headers: { 'content-type': 'text/plain' } })],
    [429, send(port, 'POST /v1/fail', '{"code":"RATE_LIMITED"}')],
    [500, send(port, 'POST /v1/fail', '{"code":"CRASH"}')],
    [400, send(port, `GET /v1/queues/${'x'.repeat(2_000)}/found`)],
    [200, send(port, 'GET /livez')],
    [200, send(port, 'HEAD /livez')],
    [503, send(port, 'GET /readyz')],
    [200, send(port, 'GET /metrics')],
    [200, send(port, 'GET /openapi.json')],
  ];
  for (const [position, [status, answer]] of answers.entries()) {
    const answered = await answer;
    assert.equal(answered.status, status, `answer ${position}`);
    assertHardened(answered.headers, `answer ${position}`);
  }
});

test('so does the answer to what is no request at all', async (t) => {
  const { port } = await startToy(t);
  for (const bytes of ['nonsense\r\n\r\n', `GET / HTTP/1.1\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`]) {
    const raw = await openRaw(port);
    raw.socket.write(bytes);
    await until('it is answered', () => raw.received.includes('\r\n\r\n'));
    const [head = ''] = raw.received.split('\r\n\r\n');
    const headers = Object.fromEntries(
      head
        .split('\r\n')
        .slice(1)
        .map((line) => line.split(/: (.*)/s).slice(0, 2)),
    );
    assertHardened(headers as IncomingHttpHeaders, head);
    raw.socket.destroy();
  }
});

test('so does everything on the port of the metrics', async () => {
  const metrics = createMetrics();
  let broken = false;
  const render = () => (broken ? Promise.reject(new Error('the secret inside')) : metrics.render());
  const server = await startMetricsServer({ render }, { host: '127.0.0.1', port: 0 });
  try {
    for (const [path, status] of [
      ['/metrics', 200],
      ['/', 404],
      ['/metrics', 500],
    ] as const) {
      broken = status === 500;
      const answered = await send(server.port, `GET ${path}`);
      assert.equal(answered.status, status);
      assertHardened(answered.headers, path);
      assert.doesNotMatch(answered.text, /secret/);
    }
  } finally {
    await server.close();
  }
});

test('the page at /docs has a policy of its own, and holds nothing that the policy refuses', async (t) => {
  const { port } = await startToy(t);
  for (const path of ['/docs', '/docs/', '/docs/static/oauth2-redirect.html']) {
    const { status, headers, text } = await send(port, `GET ${path}`);
    assert.equal(status, 200, path);
    const policy = new Map(
      (headers['content-security-policy'] as string)
        .split('; ')
        .map((part) => part.split(/ (.*)/s) as [string, string]),
    );
    assert.equal(policy.get('default-src'), "'none'");
    for (const kind of ['script-src', 'style-src', 'connect-src']) assert.equal(policy.get(kind), "'self'", kind);
    for (const kind of ['frame-ancestors', 'base-uri', 'form-action']) assert.equal(policy.get(kind), "'none'", kind);
    assert.deepEqual(
      [headers['x-content-type-options'], headers['referrer-policy'], headers['x-frame-options']],
      ['nosniff', 'no-referrer', 'DENY'],
    );
    assert.ok(headers['cache-control'] !== undefined, path);
    for (const [, content] of text.matchAll(/<script[^>]*>(.*?)<\/script>/gs)) assert.equal(content!.trim(), '', path);
    assert.doesNotMatch(text, /<style|\sstyle=|\son\w+=|javascript:|<base|<iframe|<object/i, path);
    for (const [, url] of text.matchAll(/\s(?:src|href)="([^"]*)"/g))
      assert.doesNotMatch(url!, /^(?!data:)\w+:|^\/\//, path);
  }
});
