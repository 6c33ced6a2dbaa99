import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { send, startToy } from '../http/toy-service.js';

const CONSOLE = 'https://console.example.com';
const LOCAL = 'http://localhost:3000';
const ON = { corsOrigins: [CONSOLE, LOCAL] };

/** Everything that is not exactly one of the origins of `ON`. */
const STRANGERS = [
  'null',
  '*',
  'https://console.example.com.evil.example',
  'https://evilconsole.example.com',
  'http://console.example.com',
  'https://console.example.com:8443',
  'https://console.example.com/',
  'HTTPS://CONSOLE.EXAMPLE.COM',
  `${CONSOLE}, ${LOCAL}`,
  'http://localhost',
];

function corsHeaders(headers: IncomingHttpHeaders): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => name.startsWith('access-control-') || name === 'vary'),
  );
}

function preflight(port: number, path: string, origin: string) {
  const headers = {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  };
  return send(port, `OPTIONS ${path}`, undefined, { headers: { ...headers, authorization: '' } });
}

test('without configured origins no answer says a word to scripts of elsewhere', async (t) => {
  const { port } = await startToy(t);
  const asked = await preflight(port, '/v1/wait', CONSOLE);
  assert.deepEqual([asked.status, asked.json.code, asked.headers.allow], [405, 'METHOD_NOT_ALLOWED', 'POST']);
  assert.deepEqual(corsHeaders(asked.headers), {});
  const called = await send(port, 'POST /v1/wait', '{}', { headers: { origin: CONSOLE } });
  assert.equal(called.status, 200);
  assert.deepEqual(corsHeaders(called.headers), {});
});

test('a browser that asks for a listed origin is told that origin and what the path takes, for ten minutes, without a credential', async (t) => {
  const { port } = await startToy(t, ON);
  for (const origin of ON.corsOrigins) {
    const { status, text, headers } = await preflight(port, '/v1/wait', origin);
    assert.deepEqual([status, text], [200, '']);
    assert.deepEqual(
      { ...corsHeaders(headers), 'access-control-expose-headers': undefined },
      {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': 'POST',
        'access-control-allow-headers':
          'authorization, content-type, idempotency-key, x-request-id, traceparent, tracestate',
        'access-control-max-age': '600',
        'access-control-expose-headers': undefined,
        vary: 'origin',
      },
    );
  }
  const found = await preflight(port, '/v1/queues/mail/found', CONSOLE);
  assert.equal(found.headers['access-control-allow-methods'], 'GET, HEAD');
});

test('an answer to a listed origin names it, whatever has become of the call, and shows what a script needs', async (t) => {
  const { port } = await startToy(t, ON);
  const targets: [string, string | undefined, number][] = [
    ['POST /v1/wait', '{}', 200],
    ['POST /v1/wait', '{', 400],
    ['POST /v1/fail', '{"code":"RATE_LIMITED"}', 429],
    ['POST /v1/fail', '{"code":"CRASH"}', 500],
    ['GET /nowhere', undefined, 404],
    ['PUT /v1/wait', undefined, 405],
  ];
  for (const [target, body, status] of targets) {
    const answered = await send(port, target, body, { headers: { origin: CONSOLE } });
    assert.equal(answered.status, status, target);
    assert.equal(answered.headers['access-control-allow-origin'], CONSOLE, target);
    assert.equal(answered.headers.vary, 'origin', target);
    const exposed = (answered.headers['access-control-expose-headers'] ?? '').split(', ');
    for (const name of ['x-request-id', 'retry-after', 'ratelimit-remaining']) assert.ok(exposed.includes(name), name);
    assert.equal(answered.headers['access-control-allow-credentials'], undefined, target);
  }
  const refused = await send(port, 'POST /v1/wait', '{}', { headers: { origin: CONSOLE, authorization: '' } });
  assert.deepEqual([refused.status, refused.headers['access-control-allow-origin']], [401, CONSOLE]);
});

test('an origin that is not listed to the letter gets no header, asked or called', async (t) => {
  const { port } = await startToy(t, ON);
  for (const origin of STRANGERS) {
    const asked = await preflight(port, '/v1/wait', origin);
    assert.equal(asked.status, 405, origin);
    assert.deepEqual(corsHeaders(asked.headers), { vary: 'origin' }, origin);
    const called = await send(port, 'POST /v1/wait', '{}', { headers: { origin } });
    assert.deepEqual(corsHeaders(called.headers), { vary: 'origin' }, origin);
  }
  const plain = await send(port, 'GET /livez');
  assert.deepEqual(corsHeaders(plain.headers), { vary: 'origin' }, 'a cache must not give it to an origin');
});

test('what is no question of a browser, or about no path of the service, is answered as without origins', async (t) => {
  const { port } = await startToy(t, ON);
  assert.equal((await preflight(port, '/nowhere', CONSOLE)).status, 404);
  assert.equal((await send(port, 'OPTIONS /v1/wait', undefined, { headers: { origin: CONSOLE } })).status, 405);
  const headers = { origin: CONSOLE, 'access-control-request-method': 'POST' };
  assert.equal((await send(port, 'PUT /v1/wait', undefined, { headers })).status, 405);
  assert.equal(
    (await send(port, 'OPTIONS /v1/wait', undefined, { headers: { 'access-control-request-method': 'POST' } })).status,
    405,
  );
});
