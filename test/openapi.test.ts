import assert from 'node:assert/strict';
import { test } from 'node:test';
import { operations } from '../src/operations.js';
import { committedOpenApiText, openApiText } from './openapi.js';

interface Route {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
}

const document = JSON.parse(openApiText()) as { paths: Record<string, Record<string, Route>> };
const routes = Object.values(document.paths).flatMap((path) => Object.values(path));

test('openapi/stint.json is what the operation table says: npm run openapi writes it', () => {
  assert.ok(committedOpenApiText() === openApiText(), 'openapi/stint.json is out of date: npm run openapi');
});

test('every operationId is unique, also where case is not told apart', () => {
  const ids = routes.map(({ operationId }) => operationId.toLowerCase());
  assert.deepEqual(
    ids.filter((id, index) => ids.indexOf(id) !== index),
    [],
  );
});

test('every row of the table has its routes in the document, each with a summary and a group', () => {
  assert.equal(routes.length, operations.flatMap(({ http }) => http).length);
  for (const { operationId, summary, tags } of routes) {
    assert.match(operationId, /^[A-Z][A-Za-z]+$/);
    assert.ok(summary.length > 5 && !summary.endsWith('.'), `summary of ${operationId}: ${summary}`);
    assert.equal(tags.length, 1, operationId);
  }
});
