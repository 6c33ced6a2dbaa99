import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import type { Report } from './play.js';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const FOLDER = `${ROOT}loadtest/k6/`;
const SCRIPTS = readdirSync(FOLDER).filter((name) => name.endsWith('.js') && name !== 'lib.js');

interface Case {
  readonly rounds: number;
  readonly env?: Readonly<Record<string, string>>;
  /** What may be answered besides what every script may get. */
  readonly statuses?: Readonly<Record<string, readonly string[]>>;
  /** The jobs that the iterations make, where their number is certain. */
  readonly jobs?: number;
  /** Whether all of them are worked off. */
  readonly isWorkedOff: boolean;
}

/** Every script, with how it is played and where its jobs are afterwards. */
const CASES: Readonly<Record<string, Case>> = {
  'enqueue.js': { rounds: 4, env: { BATCH: '3' }, jobs: 12, isWorkedOff: false },
  'grpc.js': { rounds: 4, jobs: 4, isWorkedOff: true },
  'lifecycle.js': { rounds: 4, jobs: 4, isWorkedOff: true },
  'longpoll.js': { rounds: 4, env: { WAIT: '1s' }, jobs: 4, isWorkedOff: true },
  'noisy-neighbour.js': { rounds: 4, env: { BATCH: '50' }, jobs: 208, isWorkedOff: true },
  'smoke.js': { rounds: 3, jobs: 15, isWorkedOff: true },
  'soak.js': { rounds: 6, isWorkedOff: false },
  'spike.js': { rounds: 3, jobs: 9, isWorkedOff: true },
};

const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  ready: ['200'],
  'put-queue': ['200'],
  enqueue: ['201', 'grpc 0'],
  'enqueue-again': ['200'],
  lease: ['200', 'grpc 0'],
  settle: ['200'],
  ack: ['200', 'grpc 0'],
  heartbeat: ['200'],
  release: ['200'],
  'get-job': ['200'],
  tenant: ['200'],
  'delete-queue': ['200'],
};

let service: TestService;
let client: Client;
let neighbour: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
  neighbour = await service.tenant();
});
after(() => service.stop());

interface Played {
  readonly code: number;
  readonly error: string;
  readonly report: Report;
}

/** Plays a script in a process of its own: it blocks while it calls. With `join` it joins the run whose setup answered that. */
function play(
  script: string,
  rounds: number,
  env: Readonly<Record<string, string>> = {},
  join?: { readonly data: unknown; readonly scenario?: string },
): Promise<Played> {
  const program = fileURLToPath(new URL('./play.js', import.meta.url));
  const settings = {
    STINT_URL: service.base,
    STINT_GRPC: service.grpc,
    STINT_KEY: client.key,
    STINT_NEIGHBOUR_KEY: neighbour.key,
    ...env,
  };
  return new Promise((resolve) => {
    const args = [program, FOLDER + script, String(rounds)];
    if (join !== undefined) args.push(JSON.stringify(join.data));
    if (join?.scenario !== undefined) args.push(join.scenario);
    execFile(process.execPath, args, { env: settings, timeout: 60_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : Number(error.code ?? -1);
      resolve({ code, error: stderr, report: (code === 0 ? JSON.parse(stdout) : undefined) as Report });
    });
  });
}

/** Jobs of these queues by state. */
async function jobsOf(queues: readonly string[]): Promise<{ waiting: number; leased: number; completed: number }> {
  const [row] = await service.sql(
    `with mine as (select id from stint.queue where name = any($1))
     select (select count(*)::int from stint.ready where queue_id in (select id from mine))
          + (select count(*)::int from stint.scheduled where queue_id in (select id from mine)) as waiting,
       (select count(*)::int from stint.lease where queue_id in (select id from mine)) as leased,
       (select count(*)::int from stint.finished where queue_id in (select id from mine) and state = 'completed') as completed`,
    [queues],
  );
  return row;
}

function queuesOf({ data }: Report): string[] {
  return 'queue' in data ? [data.queue] : [data.loud.queue, data.quiet.queue];
}

/** All that holds for every script that goes well. */
function assertWell({ report, error }: Played): void {
  assert.ok(report, error);
  const wrong = Object.entries(report.checks).filter(([, counts]) => counts.wrong > 0);
  assert.deepEqual(wrong, []);
  for (const [op, statuses] of Object.entries(report.statuses)) {
    for (const status of statuses) assert.ok(EXPECTED[op]?.includes(status), `${op} was answered ${status}`);
  }
  const missed = report.verdicts.filter(({ isHeld, isLatency }) => !isHeld && !isLatency);
  assert.deepEqual(missed, []);
}

test('every k6 script is tested', () => {
  assert.deepEqual(SCRIPTS, Object.keys(CASES));
});

for (const [script, { rounds, env, jobs, isWorkedOff }] of Object.entries(CASES)) {
  test(`${script} goes through against the service, and its jobs are where they belong`, async () => {
    const played = await play(script, rounds, { ...env, STINT_KEEP: '1' });
    assertWell(played);
    const { report } = played;
    const queues = queuesOf(report);
    const enqueued = report.sums['stint_enqueued']!;
    const acked = report.sums['stint_acked']!;
    // Setup tries the key with a job of its own, for each queue.
    if (jobs !== undefined) assert.equal(enqueued, jobs + queues.length);
    const { waiting, leased, completed } = await jobsOf(queues);
    assert.deepEqual({ completed, leased, all: completed + waiting }, { completed: acked, leased: 0, all: enqueued });
    if (isWorkedOff) assert.equal(waiting, 0);
  });

  test(`${script} leaves nothing behind`, async () => {
    const played = await play(script, 2, env);
    assertWell(played);
    for (const tenant of [client, neighbour]) {
      const { body } = await tenant.get('/v1/queues?limit=1000');
      const names = (body.queues as { name: string }[]).map(({ name }) => name);
      assert.deepEqual(
        names.filter((name) => queuesOf(played.report).includes(name)),
        [],
      );
    }
  });
}

for (const script of ['lifecycle.js', 'grpc.js']) {
  test(`${script} also holds when many users work on one queue at once`, async () => {
    const { report, error } = await play(script, 1, { STINT_KEEP: '1' });
    assert.ok(report, error);
    const joined = await Promise.all(Array.from({ length: 4 }, () => play(script, 25, {}, { data: report.data })));
    for (const played of joined) assertWell(played);
    assert.deepEqual(await jobsOf(queuesOf(report)), { waiting: 0, leased: 0, completed: 102 });
  });
}

test('in longpoll.js workers that are parked are given the jobs that come', async () => {
  const env = { STINT_KEEP: '1', WAIT: '20s' };
  const { report, error } = await play('longpoll.js', 1, env);
  assert.ok(report, error);
  const workers = play('longpoll.js', 3, env, { data: report.data, scenario: 'workers' });
  await until('a worker is parked', async () => /^stint_parked_leases 1$/m.test((await client.get('/metrics')).text));
  assertWell(await play('longpoll.js', 3, env, { data: report.data, scenario: 'producers' }));
  const worked = await workers;
  assertWell(worked);
  assert.deepEqual(worked.report.checks['lease: 200'], { right: 3, wrong: 0 });
  assert.ok(worked.report.sums['stint_pickup_duration']! >= 0);
  assert.deepEqual(await jobsOf(queuesOf(report)), { waiting: 0, leased: 0, completed: 5 });
});

test('with a key that may not delete, teardown works off what is left', async () => {
  const { key } = await service.tenant({ scopes: ['enqueue', 'work'] });
  const { report, error } = await play('enqueue.js', 3, { STINT_KEY: key });
  assert.ok(report, error);
  assert.deepEqual(report.statuses['put-queue'], ['403']);
  assert.ok(report.verdicts.filter(({ isLatency }) => !isLatency).every(({ isHeld }) => isHeld));
  assert.deepEqual(await jobsOf(queuesOf(report)), { waiting: 0, leased: 0, completed: 4 });
});

test('a call that is put off is made again after Retry-After, and counted', async () => {
  const limited = await service.tenant();
  const { body } = await limited.get('/v1/tenant');
  const patched = await service.admin.patch(`/v1/admin/tenants/${body.id}`, { limits: { jobsPerSecond: 2 } });
  assert.equal(patched.status, 200, patched.text);
  const { report, error } = await play('enqueue.js', 8, { STINT_KEY: limited.key, STINT_KEEP: '1' });
  assert.ok(report, error);
  assert.deepEqual(report.statuses['enqueue']?.toSorted(), ['201', '429']);
  assert.ok(Object.values(report.checks).every(({ wrong }) => wrong === 0));
  assert.ok(report.sums['stint_refused']! > 0);
  assert.ok(report.verdicts.some(({ key, isHeld }) => key === 'stint_refused' && !isHeld));
  assert.ok(report.verdicts.every(({ key, isHeld }) => key !== 'http_req_failed' || isHeld));
  assert.equal((await jobsOf(queuesOf(report))).waiting, 8);
});

test('grpc.js also asks the service for its contract, and goes on when it is put off', async () => {
  const limited = await service.tenant();
  const { body } = await limited.get('/v1/tenant');
  await service.admin.patch(`/v1/admin/tenants/${body.id}`, { limits: { jobsPerSecond: 2 } });
  const { report, error } = await play('grpc.js', 6, { STINT_KEY: limited.key, STINT_PROTO: 'reflection' });
  assert.ok(report, error);
  assert.deepEqual(report.statuses['enqueue']?.toSorted(), ['201', 'grpc 0', 'grpc 8']);
  assert.ok(Object.values(report.checks).every(({ wrong }) => wrong === 0));
});

test('setup ends the run in plain words when the key is missing or wrong, or the service is not there', async () => {
  const withoutWork = await service.tenant({ scopes: ['enqueue', 'manage'] });
  const workOnly = (await service.tenant({ scopes: ['work'] })).key;
  for (const [env, said] of [
    [{ STINT_KEY: '' }, /^the key is missing: set STINT_KEY/],
    [{ STINT_KEY: 'nonsense' }, /^the queue cannot be made: 401 .*UNAUTHENTICATED/],
    [{ STINT_KEY: workOnly }, /^the key cannot enqueue: it needs the scope `enqueue`/],
    [{ STINT_KEY: withoutWork.key }, /^the key cannot lease: it needs the scope `work`/],
    [{ STINT_URL: 'http://127.0.0.1:9' }, /^http:\/\/127\.0\.0\.1:9 is not ready: /],
    [{ VUS: 'many' }, /^VUS is to be a whole number of at least 1/],
  ] as const) {
    const { code, error } = await play('smoke.js', 1, env);
    assert.notEqual(code, 0);
    assert.match(error, said);
  }
  assert.deepEqual((await withoutWork.get('/v1/queues')).body.queues, []);
  const { code, error } = await play('noisy-neighbour.js', 1, { STINT_NEIGHBOUR_KEY: client.key });
  assert.notEqual(code, 0);
  assert.match(error, /^STINT_KEY and STINT_NEIGHBOUR_KEY are of the same tenant/);
});

test('the scripts and their options are what the types of k6 allow', async () => {
  const compiler = `${ROOT}node_modules/typescript/bin/tsc`;
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [compiler, '-p', FOLDER], (_error, stdout) => resolve(stdout));
  });
  assert.equal(output, '');
});

test('each script says at its top which settings it reads, and their defaults', () => {
  for (const script of [...SCRIPTS, 'lib.js']) {
    const source = readFileSync(FOLDER + script, 'utf8');
    const top = source.slice(0, source.search(/^(import|\/\*)/m));
    for (const [, name, fallback] of source.matchAll(/\b(?:text|count|seconds)\('([A-Z0-9_]+)', ([^)]*)\)/g)) {
      const line = top.split('\n').find((one) => new RegExp(`\\b${name!}\\b`).test(one));
      assert.ok(line, `${script} does not say that it reads ${name!}`);
      const value = fallback!.replaceAll("'", '');
      if (/^[\w.:/-]+$/.test(value) && !/^p\d/.test(value))
        assert.ok(line.includes(`(${value})`), `${script}: ${line}`);
    }
  }
});

test('loadtest/k6/operator.yaml runs a script that is there, with settings that the scripts read', () => {
  const manifest = readFileSync(`${FOLDER}operator.yaml`, 'utf8');
  const [, script] = /^ +file: (\S+)$/m.exec(manifest)!;
  assert.ok(SCRIPTS.includes(script!), script);
  const sources = [...SCRIPTS, 'lib.js'].map((name) => readFileSync(FOLDER + name, 'utf8')).join('');
  const settings = [...manifest.matchAll(/^ +- name: ([A-Z0-9_]+)$/gm)].map(([, name]) => name!);
  assert.ok(settings.length > 0);
  for (const name of settings) assert.match(sources, new RegExp(`(text|count|seconds)\\('${name}'`));
});

test('docs/load-testing.md names every script, and no other', () => {
  const page = readFileSync(`${ROOT}docs/load-testing.md`, 'utf8');
  const named = [...page.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, name]) => `${name!}.js`);
  assert.deepEqual(named.toSorted(), SCRIPTS.toSorted());
});
