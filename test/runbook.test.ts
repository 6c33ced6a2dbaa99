import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { operations } from '../src/operations.js';
import { startTestService, type TestService } from './helpers/service.js';

const RUNBOOK = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
let service: TestService;

before(async () => {
  service = await startTestService();
});
after(() => service.stop());

test('every statement by which the runbook looks runs, and changes nothing', async () => {
  const blocks = [...RUNBOOK.matchAll(/^```sql\n(.*?)^```$/gms)].map(([, sql]) => sql!);
  const statements = blocks.flatMap((block) => block.split(/;\s*$/m)).filter((each) => each.trim() !== '');
  assert.ok(statements.length >= 10);
  for (const statement of statements) {
    assert.match(statement.trim(), /^select /);
    await service.sql(statement);
  }
});

test('every path that the runbook names is one of the API, with its method', () => {
  const known = new Set(
    operations.flatMap(({ http }) => http.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)),
  );
  const named = [...RUNBOOK.matchAll(/`(GET|POST|PUT|PATCH|DELETE) (\/v1\/[^`?]+)`/g)];
  assert.ok(named.length >= 5);
  for (const [, method, path] of named) assert.ok(known.has(`${method!} ${path!}`), `${method!} ${path!}`);
  for (const [, path] of RUNBOOK.matchAll(/\$STINT(\/v1\/[^\s"?]+)/g)) {
    const pattern = path!.replace('/mail', '/{queue}');
    assert.ok(known.has(`GET ${pattern}`), pattern);
  }
});

test('every link within the runbook leads to one of its sections, or to one of the page that it names', () => {
  const anchors = (text: string): Set<string> =>
    new Set(
      [...text.matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
        title!
          .toLowerCase()
          .replaceAll(/[^\w\s-]/g, '')
          .replaceAll(' ', '-'),
      ),
    );
  for (const [, page, anchor] of RUNBOOK.matchAll(/\]\(([\w./-]*)#([\w-]+)\)/g)) {
    const text = page === '' ? RUNBOOK : readFileSync(new URL(`../../docs/${page!}`, import.meta.url), 'utf8');
    assert.ok(anchors(text).has(anchor!), `${page!}#${anchor!}`);
  }
});
