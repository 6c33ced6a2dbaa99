import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { findPostgres15, startTestServer, type TestServer } from './helpers/postgres-server.js';

/** Node 20 takes the bound for a whole file; no single test may take that long. */
const FILE_TIMEOUT_MS = 300_000;
/** Half of the time is spent on waiting. */
const DEFAULT_CONCURRENCY = 3;
/** Those that wait the longest come first: one of them at the end would be alone. */
const LONG = /^(workers|faults|upgrade)\/|^(fault-harness|process|idle|upkeep)\.|^schedules\/instances/;
/** The suites of what callers see: they are run over gRPC too. */
const OVER_GRPC = /^(contract|cases)\//;
/** The suites that say what statements do: they are run on the oldest supported Postgres too. */
const ON_BOTH = /^(contract|cases|queues|tasks|tenants)\/|^(model|limits|jobs-read)\./;
/** Of these, those that say nothing of statements. */
const OF_THE_PROCESS = /^cases\/revocation\.|^tenants\/(token|allowance|root-keys|caller-watch)/;

const files = await testFiles(process.argv.slice(2));
if (files.length === 0) {
  process.stderr.write('No test file matches.\n');
  process.exitCode = 1;
} else {
  process.exitCode = await withServers(files);
}

/** All test files below this directory whose path holds any of the words given; all when there are none. */
async function testFiles(words: readonly string[]): Promise<string[]> {
  const names = await readdir(import.meta.dirname, { recursive: true });
  return names
    .filter((name) => name.endsWith('.test.js'))
    .filter((name) => words.length === 0 || words.some((word) => name.includes(word)))
    .sort((a, b) => Number(LONG.test(b)) - Number(LONG.test(a)) || (a < b ? -1 : 1))
    .map((name) => path.join(import.meta.dirname, name));
}

async function withServers(selected: string[]): Promise<number> {
  const servers: TestServer[] = [];
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interrupted.abort());
  try {
    const current = await startTestServer();
    servers.push(current);
    process.env['STINT_TEST_DATABASE_URL'] = current.url;
    const home = await findPostgres15();
    if (home === undefined) {
      process.stdout.write('PostgreSQL 15, the oldest supported, is not installed: the suites are not run on it.\n');
      return await runOverBoth(selected, interrupted.signal);
    }
    const oldest = await startTestServer(home);
    servers.push(oldest);
    process.env['STINT_TEST_POSTGRES15_URL'] = oldest.url;
    const code = await runOverBoth(selected, interrupted.signal);
    const again = selected.filter((file) => {
      const name = path.relative(import.meta.dirname, file);
      return ON_BOTH.test(name) && !OF_THE_PROCESS.test(name);
    });
    if (code !== 0 || again.length === 0) return code;
    process.stdout.write('\nThe suites of what the database does, once more on PostgreSQL 15:\n\n');
    process.env['STINT_TEST_DATABASE_URL'] = oldest.url;
    return await runAll(again, interrupted.signal);
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** All files, and then those of what callers see once more over gRPC. */
async function runOverBoth(selected: string[], signal: AbortSignal): Promise<number> {
  const code = await runAll(selected, signal);
  const again = selected.filter((file) => OVER_GRPC.test(path.relative(import.meta.dirname, file)));
  if (code !== 0 || again.length === 0) return code;
  process.stdout.write('\nThe suites of what callers see, once more over gRPC:\n\n');
  process.env['STINT_TEST_TRANSPORT'] = 'grpc';
  try {
    return await runAll(again, signal);
  } finally {
    delete process.env['STINT_TEST_TRANSPORT'];
  }
}

async function runAll(selected: string[], signal: AbortSignal): Promise<number> {
  const concurrency = Number(process.env['STINT_TEST_CONCURRENCY'] ?? DEFAULT_CONCURRENCY);
  const events = run({ files: selected, concurrency, timeout: FILE_TIMEOUT_MS, signal });
  let passed = 0;
  let failed = 0;
  // A file without a test reports itself as one that passed.
  events.on('test:pass', ({ name, skip }) => {
    if (!selected.includes(name) && (skip === undefined || skip === false)) passed += 1;
  });
  events.on('test:fail', ({ todo }) => {
    if (todo === undefined || todo === false) failed += 1;
  });
  await new Promise<void>((resolve, reject) => {
    events.once('error', reject);
    const report = events.compose(new spec());
    report.once('end', resolve).once('error', reject);
    report.pipe(process.stdout);
  });
  if (passed === 0) process.stderr.write('No test ran.\n');
  return failed === 0 && passed > 0 && !signal.aborted ? 0 : 1;
}
