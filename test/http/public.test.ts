import assert from 'node:assert/strict';
import { test } from 'node:test';
import { send, startToy } from './toy-service.js';

const STRANGER = { headers: { authorization: '' } };

test('probes, metrics, document and page need no credential, for GET as for HEAD', async (t) => {
  const { port } = await startToy(t);
  for (const path of ['/livez', '/readyz', '/metrics', '/openapi.json', '/docs', '/docs/']) {
    const got = await send(port, `GET ${path}`, undefined, STRANGER);
    const head = await send(port, `HEAD ${path}`, undefined, STRANGER);
    assert.deepEqual([got.status, head.status, head.text], [200, 200, ''], path);
    assert.equal(head.headers['content-type'], got.headers['content-type']);
  }
});

test('readiness says in words what is amiss', async (t) => {
  const { port } = await startToy(t, {
    ready: () => Promise.resolve({ ok: false, detail: 'the database is read-only' }),
  });
  const { status, json } = await send(port, 'GET /readyz');
  assert.deepEqual([status, json], [503, { status: 'unavailable', detail: 'the database is read-only' }]);
  assert.equal((await send(port, 'GET /livez')).status, 200);
});

test('every metric begins with stint_ and calls are counted by outcome', async (t) => {
  const { port } = await startToy(t);
  await send(port, 'POST /v1/wait', '{}');
  await send(port, 'POST /v1/fail', '{"code":"CONFLICT"}');
  const { text, headers } = await send(port, 'GET /metrics');
  assert.match(headers['content-type'] as string, /^text\/plain; version=0\.0\.4/);
  for (const line of text.split('\n')) assert.match(line, /^(stint_|# (HELP|TYPE) stint_|$)/);
  assert.match(text, /stint_operations_total\{operation="Wait",transport="http",code="OK"\} 1/);
  assert.match(text, /stint_operations_total\{operation="Fail",transport="http",code="CONFLICT"\} 1/);
});

test('the page and all it loads come from here, under a policy that allows nothing else', async (t) => {
  const { port } = await startToy(t);
  const page = await send(port, 'GET /docs');
  const policy = page.headers['content-security-policy'] as string;
  assert.match(policy, /default-src 'none'/);
  assert.match(policy, /script-src 'self';/);
  assert.doesNotMatch(policy, /https?:|unsafe-eval/);
  assert.doesNotMatch(page.text, /<script>|<script [^>]*>[^<\s]|onload=/);
  const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url!);
  assert.ok(assets.length >= 5);
  for (const asset of assets) {
    assert.match(asset, /^\/docs\/static\//);
    const { status, headers } = await send(port, `GET ${asset}`);
    assert.equal(status, 200, asset);
    assert.equal(headers['x-content-type-options'], 'nosniff');
  }
  assert.deepEqual((await send(port, 'GET /docs/json')).json, (await send(port, 'GET /openapi.json')).json);
});

test('a path under the page that does not exist is 404 like any other', async (t) => {
  const { port } = await startToy(t);
  for (const path of ['/docs/static/nothing.js', '/docs/static/..%2f..%2fpackage.json', '/docs/nothing']) {
    const { status, json } = await send(port, `GET ${path}`);
    assert.deepEqual([status, json.code], [404, 'NOT_FOUND'], path);
  }
});
