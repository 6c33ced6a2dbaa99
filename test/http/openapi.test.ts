import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildOpenApi } from '../../src/http/openapi.js';
import { toyOperations } from './toy-service.js';

const document = JSON.parse(JSON.stringify(buildOpenApi(toyOperations, '1.2.3')));

test('the document is OpenAPI 3.1 with an operation for every route of the table', () => {
  assert.equal(document.openapi, '3.1.0');
  assert.equal(document.info.version, '1.2.3');
  const ids = Object.values<any>(document.paths).flatMap((path) =>
    Object.values<any>(path).map((row) => row.operationId),
  );
  const expected = toyOperations.flatMap(({ name, http }) => http.map(({ suffix = '' }) => name + suffix));
  assert.deepEqual(ids.toSorted(), expected.toSorted());
  assert.deepEqual(
    document.tags.map((tag: any) => tag.name),
    ['Jobs', 'Queues'],
  );
});

test('a route shows what it takes from path, headers and body, and an example of it', () => {
  const { post } = document.paths['/v1/queues/{queue}/echo'];
  assert.deepEqual(
    post.parameters.map((each: any) => [each.in, each.name, each.required]),
    [
      ['path', 'queue', true],
      ['header', 'idempotency-key', false],
    ],
  );
  const { schema, example } = post.requestBody.content['application/json'];
  assert.equal(post.requestBody.required, false);
  assert.deepEqual(Object.keys(schema.properties), ['note', 'payload', 'delay', 'idempotencyKey']);
  assert.equal(schema.additionalProperties, false);
  assert.equal(schema.properties.delay.type, 'string');
  assert.deepEqual(example, { payload: { to: 'a@example.org' }, delay: '30s' });
  assert.deepEqual(post['x-scopes'], ['enqueue']);
});

test('a route shows neither what it sets itself nor what it does not take', () => {
  const { schema, example } = document.paths['/v1/fixed/{queue}'].post.requestBody.content['application/json'];
  assert.deepEqual(Object.keys(schema.properties), ['payload', 'idempotencyKey']);
  assert.deepEqual(example, { payload: { to: 'a@example.org' } });
  assert.equal(document.paths['/v1/queues/{queue}/pause'].post.requestBody, undefined);
});

test('a route without a body shows its query parameters', () => {
  const { get } = document.paths['/v1/queues/{queue}/found'];
  assert.deepEqual(
    get.parameters.map((each: any) => [each.in, each.name, each.schema.type]),
    [
      ['path', 'queue', 'string'],
      ['query', 'limit', 'integer'],
      ['query', 'all', 'boolean'],
    ],
  );
  assert.equal(get.requestBody, undefined);
});

test('every success and every problem of a route is listed, and every reference leads somewhere', () => {
  const { responses } = document.paths['/v1/queues/{queue}/echo'].post;
  const statuses = ['200', '201', '400', '401', '403', '404', '408', '409', '413', '415', '429', '500', '503'];
  assert.deepEqual(Object.keys(responses), statuses);
  for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    const target = reference!.split('/').reduce((node, key) => node?.[key], document);
    assert.equal(typeof target, 'object', reference);
  }
  assert.match(document.components.responses.Problem429.description, /BACKLOG_FULL/);
  assert.ok(document.components.responses.Problem503.headers['Retry-After']);
});

test('the same table gives the same document, byte for byte', () => {
  assert.equal(JSON.stringify(buildOpenApi(toyOperations, '1.2.3')), JSON.stringify(document));
});
