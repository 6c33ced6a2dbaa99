import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { INVARIANTS } from '../src/tasks/invariants.js';
import { createEmptyDatabase } from './helpers/postgres.js';
import {
  createInstallation,
  endWith,
  type Installation,
  runScript,
  startService,
  type ServiceProcess,
} from './helpers/service-process.js';

interface Ended {
  readonly code: number | null;
  /** Standard output alone. */
  readonly out: string;
  readonly error: string;
}

for (const command of ['check', 'migrate']) {
  it(`stint ${command} ends at a signal by itself, as the first process of a container has to`, async () => {
    const mute = net.createServer().listen(0, '127.0.0.1');
    await once(mute, 'listening');
    const connected = once(mute, 'connection');
    const { port } = mute.address() as net.AddressInfo;
    const running = runScript('src/main.js', [command], { STINT_DATABASE_URL: `postgres://u:p@127.0.0.1:${port}/d` });
    const [socket] = (await connected) as [net.Socket];
    running.child.kill('SIGTERM');
    assert.deepEqual(await running.exit, { code: 143, signal: null }, running.output());
    socket.destroy();
    mute.close();
  });
}

describe('stint check', () => {
  let installation: Installation;
  let service: ServiceProcess;
  let ids: string[];

  before(async () => {
    installation = await createInstallation();
    service = await startService(installation);
    const jobs = Array.from({ length: 30 }, () => ({ queue: 'mail', payload: 'secret-payload' }));
    ids = (await service.client.post('/v1/jobs/batch', { jobs })).body.jobs.map(({ id }: { id: string }) => id);
    const { body } = await service.client.post('/v1/queues/mail/lease', { maxJobs: 2 });
    await service.client.post('/v1/leases/ack', { items: [{ leaseToken: body.jobs[0].leaseToken }] });
  });

  after(async () => {
    if (service.child.exitCode === null) await endWith(service, 'SIGTERM');
    await installation.remove();
  });

  const check = (...args: string[]): Promise<Ended> => run(['check', ...args], dataIn(installation.dataDirectory));

  it('says of each rule that it holds, beside the service that uses the data, and ends with 0', async () => {
    const { code, out, error } = await check();
    assert.equal(code, 0, error);
    const lines = out.trimEnd().split('\n');
    assert.deepEqual(
      lines.slice(0, -1),
      INVARIANTS.map(({ rule }) => `ok      ${rule}`),
    );
    assert.equal(lines.at(-1), `All ${INVARIANTS.length} rules hold.`);
    assert.equal(error, '');
  });

  it('shows up to twenty breaches of a rule, no payload, and ends with 1', async () => {
    await installation.sql('delete from stint.job where id = any($1::uuid[])', [ids.slice(5)]);
    const { code, out } = await check();
    assert.equal(code, 1, out);
    assert.match(out, /^BROKEN {2}a job that is not finished has its body.*\(without_body\):$/m);
    assert.match(out, new RegExp(`^ +\\{"job_id":"[0-9a-f-]{36}","state":"ready"\\}$`, 'm'));
    assert.equal(out.match(/"job_id"/g)!.length, 20);
    assert.match(out, /… and more\n/);
    assert.match(out, /\n1 of \d+ rules are broken\.\n$/);
    assert.doesNotMatch(out, /secret-payload/);
  });

  it('with --json writes one document that says the same', async () => {
    const { code, out } = await check('--json');
    assert.equal(code, 1);
    const { ok, rules } = JSON.parse(out);
    assert.equal(ok, false);
    assert.deepEqual(
      rules.map(({ breach, rule }: any) => [breach, rule]),
      INVARIANTS.map(({ breach, rule }) => [breach, rule]),
    );
    for (const rule of rules) {
      const broken = rule.breach === 'without_body';
      assert.deepEqual([rule.ok, rule.breaches.length, rule.more], [!broken, broken ? 20 : 0, broken], rule.rule);
    }
  });

  it('starts the Postgres of the data directory when it does not run, and stops it again', async () => {
    assert.equal((await endWith(service, 'SIGTERM')).code, 0);
    const { code, out, error } = await check('--json');
    assert.equal(code, 1, error);
    assert.equal(JSON.parse(out).ok, false);
    const postmaster = path.join(installation.dataDirectory, 'postgres', 'data', 'postmaster.pid');
    assert.ok(!existsSync(postmaster), 'Postgres still runs');
  });

  it('ends with 2 and a sentence where there is no database, and makes none', async () => {
    const directory = await mkdtemp(path.join(tmpdir(), 'stint-check-'));
    try {
      const nowhere = path.join(directory, 'none');
      const { code, out, error } = await run(['check'], dataIn(nowhere));
      assert.deepEqual([code, out], [2, '']);
      assert.match(error, /^stint: there is no database in .*none/);
      assert.ok(!existsSync(nowhere));
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('ends with 2 where the database cannot be reached', async () => {
    const { code, error } = await run(['check'], { STINT_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' });
    assert.equal(code, 2);
    assert.match(error, /^stint: the database cannot be reached \(127\.0\.0\.1:1, database none\)/);
  });

  it('ends with 2 where the database is not of this version, and leaves it as it is', async () => {
    const database = await createEmptyDatabase();
    try {
      for (let times = 0; times < 2; times += 1) {
        const { code, error } = await run(['check'], { STINT_DATABASE_URL: database.url });
        assert.equal(code, 2);
        assert.match(error, /^stint: the database is not at this version: run stint migrate/);
      }
    } finally {
      await database.drop();
    }
  });

  it('ends with 2 for an option that it does not know; --json belongs to it alone', async () => {
    assert.equal((await check('--fix')).code, 2);
    const { code, error } = await run(['migrate', '--json'], dataIn(installation.dataDirectory));
    assert.equal(code, 1);
    assert.match(error, /--json is of check/);
  });
});

function dataIn(dataDirectory: string): Record<string, string> {
  return { STINT_DATA_DIR: dataDirectory };
}

async function run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  const { child, exit } = runScript('src/main.js', args, env);
  let [out, error] = ['', ''];
  child.stdout!.on('data', (text: string) => (out += text));
  child.stderr!.on('data', (text: string) => (error += text));
  await once(child, 'close');
  return { code: (await exit).code, out, error };
}
