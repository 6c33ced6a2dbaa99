import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ERROR_CODES } from '../src/errors.js';
import { createMetrics } from '../src/observability/metrics.js';
import { SETTING_NAMES } from '../src/queues/settings.js';
import { committedConfiguration, configurationText } from './configuration.js';

const ROOT = new URL('../../', import.meta.url);
const PAGES = [
  'SECURITY.md',
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'examples/README.md',
  'helm/stint/README.md',
  ...readdirSync(new URL('docs/', ROOT))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

function read(page: string): string {
  return readFileSync(new URL(page, ROOT), 'utf8');
}

test('docs/configuration.md is what src/config.ts says', () => {
  const stale = 'docs/configuration.md is out of date: npm run build && node dist/test/configuration.js --write';
  assert.ok(committedConfiguration() === configurationText(), stale);
});

test('docs/operations.md has every metric, and none that does not exist', async () => {
  const { body } = await createMetrics().render();
  const names = [...body.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    .map(([, name, type]) => ({ name: name!, type: type! }))
    .filter(({ name }) => !/^stint_(process|nodejs)_/.test(name));
  const rows = [...read('docs/operations.md').matchAll(/^\| `(stint_[a-z_]+)` \| (\w+) \|/gm)];
  assert.deepEqual(
    rows.map(([, name, type]) => ({ name, type })).toSorted((a, b) => (a.name! < b.name! ? -1 : 1)),
    names.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  );
});

test('docs/api.md has every error code with its status', () => {
  const rows = [...read('docs/api.md').matchAll(/^\| (`[A-Z_`, ]+`) \| (\d{3}) \|/gm)];
  const documented = rows.flatMap(([, codes, status]) =>
    [...codes!.matchAll(/[A-Z_]+/g)].map(([code]) => [code, Number(status)]),
  );
  const expected = Object.entries(ERROR_CODES).map(([code, { http }]) => [code, http]);
  assert.deepEqual(Object.fromEntries(documented), Object.fromEntries(expected));
});

test('docs/api.md has every setting of a queue with its default', () => {
  const rows = [...read('docs/api.md').matchAll(/^\| `(\w+)` \| [^|]+ \| [^|]+ \|$/gm)].map(([, name]) => name!);
  for (const name of SETTING_NAMES) assert.ok(rows.includes(name), `docs/api.md says nothing of ${name}`);
});

test('every link between the documents leads to a file', () => {
  for (const page of PAGES) {
    const base = new URL(page, ROOT);
    for (const [, target] of read(page).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
      if (target!.startsWith('http')) continue;
      assert.ok(existsSync(new URL(target!, base)), `${page} links to ${target!}, which is not there`);
    }
  }
});

test('every path that a document names in the tree is there', () => {
  for (const page of PAGES) {
    for (const [, name] of read(page).matchAll(/`((?:src|test|migrations|examples|docs|openapi)\/[\w./-]+\.\w+)`/g)) {
      if (name!.includes('NNNN')) continue;
      assert.ok(existsSync(new URL(name!, ROOT)), `${page} names ${name!}, which is not there`);
    }
  }
});
