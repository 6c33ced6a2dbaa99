import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import ts from 'typescript';

const ROOT = new URL('../../', import.meta.url);
const MOST_LINES = 300;

/** Which rooms a room may import from. A file outside of any folder is a room of its own unless `HALL` lists it. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  // `check` asks the database what a task asks it, of everything: there is one place for the rules.
  main: ['service', 'relay', 'tasks', 'config', 'db', 'observability'],
  service: [
    'config',
    'operations',
    'core',
    'audit',
    'tenants',
    'tasks',
    'events',
    'hotpath',
    'db',
    'http',
    'grpc',
    'observability',
  ],
  operations: ['core', 'jobs', 'queues', 'scaling', 'schedules', 'events', 'tenants', 'audit', 'hotpath'],
  http: ['core', 'errors', 'observability'],
  grpc: ['core', 'errors', 'observability'],
  schedules: ['audit', 'jobs', 'core', 'hotpath', 'db', 'errors'],
  queues: ['audit', 'jobs', 'core', 'hotpath', 'db', 'errors'],
  scaling: ['jobs', 'core', 'hotpath', 'errors'],
  jobs: ['core', 'hotpath', 'db', 'errors'],
  tenants: ['audit', 'core', 'hotpath', 'db', 'errors'],
  events: ['audit', 'queues', 'jobs', 'core', 'hotpath', 'db', 'errors'],
  audit: ['core', 'hotpath', 'db', 'errors'],
  tasks: ['events', 'queues', 'schedules', 'tenants', 'core', 'hotpath', 'db', 'errors', 'observability'],
  hotpath: ['core', 'db', 'errors', 'observability'],
  core: ['errors', 'observability'],
  db: ['errors'],
  // A client of any Stint, so it knows nothing of the engine.
  relay: ['http', 'core', 'db', 'errors', 'observability'],
  config: [],
  errors: [],
  observability: [],
};

/** Files beside the rooms, and the room they belong to. */
const HALL: Readonly<Record<string, string>> = {
  'check.ts': 'main',
  'relay-command.ts': 'main',
  'greeting.ts': 'service',
  'kept-secrets.ts': 'service',
  'version.ts': 'service',
  'config-database.ts': 'config',
  'config-files.ts': 'config',
  'config-formats.ts': 'config',
  'config-issuers.ts': 'config',
  'config-names.ts': 'config',
  'config-relay.ts': 'config',
  'config-tracing-variables.ts': 'config',
  'config-tracing.ts': 'config',
  'config-values.ts': 'config',
  'config-variables.ts': 'config',
};

/**
 * Statements of the rooms that serve tenants which bind neither a tenant nor a queue: each with the reason why it cannot touch
 * what is another tenant's.
 */
const BOUND_OTHERWISE: Readonly<Record<string, string>> = {
  'claim-give-back': 'lease ids are random 64-bit numbers that this process has drawn for its own claim',
  'claim-body-missing': 'binds job and random lease id of jobs that this very call has just leased',
  'claim-lock-limited': 'takes advisory locks by queue id, touches no table',
  'enqueue-find': 'job ids that this process has just made, after a commit whose answer was lost',
  'older-transactions': 'reads transaction ids, no tenant data',
  'queue-delete-now': 'reads the clock, no tenant data',
  'dead-letters-lock': 'binds the id of the tenant itself',
};

interface Source {
  /** Below src, with slashes. */
  readonly name: string;
  readonly text: string;
  readonly tree: ts.SourceFile;
}

interface StatementText {
  readonly file: string;
  readonly name: string;
  readonly text: ts.Expression;
}

const sources = readSources();
const statements = sources.flatMap(statementsOf);

test('every import follows an arrow from its room to a lower one', () => {
  const wrong = sources.flatMap(({ name, text }) => {
    const from = roomOf(name);
    assert.ok(from in MAY_IMPORT, `${name} is in no room: add it to the table`);
    return importsOf(name, text)
      .filter((target) => roomOf(target) !== from && !MAY_IMPORT[from]!.includes(roomOf(target)))
      .map((target) => `${name} imports ${target}`);
  });
  assert.deepEqual(wrong, []);
});

test('no room imports, over others, from itself', () => {
  assert.deepEqual(circlesIn(new Map(Object.entries(MAY_IMPORT))), []);
});

test('no file imports, over others, from itself, not even a type', () => {
  assert.deepEqual(circlesIn(new Map(sources.map(({ name, text }) => [name, importsOf(name, text)]))), []);
});

test('only config.ts reads the environment', () => {
  const readers = sources.filter(({ text }) => /process\.env|process\['env'\]/.test(text)).map(({ name }) => name);
  assert.deepEqual(readers, ['config.ts']);
});

test('the text of a statement is a constant: nothing is put into it at run time', () => {
  assert.ok(statements.length > 50, `found ${statements.length} statements`);
  const composed = statements
    .filter(({ text }) => !ts.isNoSubstitutionTemplateLiteral(text) && !ts.isStringLiteral(text))
    .map(({ file, name }) => `${file}: ${name}`);
  assert.deepEqual(composed, []);
});

test('a statement name stands for one text, since texts are prepared under it', () => {
  const texts = new Map<string, string>();
  for (const { name, text } of statements) {
    assert.equal(texts.get(name) ?? text.getText(), text.getText(), `two statements are called ${name}`);
    texts.set(name, text.getText());
  }
});

test('every statement on the data of a tenant binds the tenant or a queue, or says in this file why not', () => {
  const unbound = statements
    .filter(({ file }) => /^(jobs|queues)\//.test(file))
    .filter(({ text }) => !bindsTenantOrQueue(text.getText()))
    .map(({ name }) => name);
  assert.deepEqual(unbound.toSorted(), Object.keys(BOUND_OTHERWISE).toSorted());
});

test('files stay short, export by name, and import with their suffix', () => {
  for (const { name, text, tree } of sources) {
    const lines = text.split('\n').length - 1;
    assert.ok(lines <= MOST_LINES, `${name} has ${lines} lines: split it`);
    assert.ok(!tree.statements.some(ts.isExportAssignment) && !/export default|as default/.test(text), name);
    for (const [, target] of text.matchAll(/from '(\.[^']*)'/g)) assert.match(target!, /\.js$/, name);
    assert.ok(!/^export (\*|\{[^}]*\}) from/m.test(text), `${name} exports what is another file's`);
  }
});

test('every runtime dependency is used, and has its sentence in docs/decisions.md', () => {
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json')) as Record<
    string,
    Record<string, string>
  >;
  const decisions = read('docs/decisions.md');
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    assert.match(decisions, new RegExp(`^- \`${name}\`: \\w`, 'm'), `docs/decisions.md says nothing of ${name}`);
    assert.ok(
      sources.some(
        ({ text }) => text.includes(`from '${name}`) || text.includes(`'${name}`) || text.includes(`@${name}`),
      ),
      `${name} is not used`,
    );
  }
});

/**
 * True when a parameter decides which tenant or queue is touched: compared with tenant_id or queue_id or a queue's own id, given
 * as a list of queue ids that is unnested, or written to a column of that name.
 */
function bindsTenantOrQueue(text: string): boolean {
  return (
    /\b(tenant_id|queue_id|dead_letter_queue_id) = (any\()?\$\d+::(uuid|int)\b/.test(text) ||
    /\b(from|update) queue( q)?\b[^;]*\bwhere (q\.)?id = (any\()?\$\d+::int\b/.test(text) ||
    /\binsert into queue \(tenant_id, name\)\nvalues \(\$1::uuid/.test(text) ||
    /\bunnest\([^)]*\$\d+::int\[\][^)]*\)[^(]*\([^)]*\bqueue_id\b/.test(text)
  );
}

function readSources(): Source[] {
  const directory = new URL('src/', ROOT);
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => name.replaceAll('\\', '/'))
    .map((name) => {
      const text = read(`src/${name}`);
      return { name, text, tree: ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true) };
    });
}

function read(name: string): string {
  return readFileSync(new URL(name, ROOT), 'utf8');
}

function roomOf(name: string): string {
  return HALL[name] ?? (name.includes('/') ? name.slice(0, name.indexOf('/')) : path.basename(name, '.ts'));
}

/** The files of ours that a file imports from, types included. */
function importsOf(name: string, text: string): string[] {
  return [...text.matchAll(/(?:from|import\(|^import) ?'(\.[^']+)'/gm)].map(([, target]) =>
    path.posix.join(path.posix.dirname(name), target!).replace(/\.js$/, '.ts'),
  );
}

function circlesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (node: string, above: readonly string[]): void => {
    if (above.includes(node)) circles.push([...above.slice(above.indexOf(node)), node].join(' > '));
    if (done.has(node) || above.includes(node)) return;
    for (const next of graph.get(node) ?? []) visit(next, [...above, node]);
    done.add(node);
  };
  for (const node of graph.keys()) visit(node, []);
  return circles;
}

/** Object literals of exactly the form of a `Statement`. */
function statementsOf({ name: file, tree }: Source): StatementText[] {
  const found: StatementText[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isObjectLiteralExpression(node)) {
      const values = new Map(
        node.properties.filter(ts.isPropertyAssignment).map((each) => [each.name.getText(), each.initializer]),
      );
      const [name, text] = [values.get('name'), values.get('text')];
      if (name !== undefined && text !== undefined && ts.isStringLiteral(name))
        found.push({ file, name: name.text, text });
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}
