import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, afterEach, before, test } from 'node:test';
import { until } from './helpers/service.js';
import {
  createInstallation,
  endWith,
  type Installation,
  runProgram,
  runScript,
  type Running,
  startService,
  type ServiceProcess,
} from './helpers/service-process.js';

const PYTHON_WORKER = fileURLToPath(new URL('../../examples/worker-python/worker.py', import.meta.url));

const AMID = `
  with mine as (select id from stint.queue where name = $1)
  select (select count(*)::int from stint.finished where queue_id = (select id from mine)) as done,
    (select count(*)::int from stint.ready where queue_id = (select id from mine)) as waiting,
    (select count(*)::int from stint.ready where queue_id = (select id from mine) and attempt > 0) as spent`;

let installation: Installation;
let service: ServiceProcess;
const others: Running[] = [];

before(async () => {
  installation = await createInstallation();
  service = await startService(installation);
});

afterEach(async () => {
  for (const { child, exit } of others.splice(0)) {
    child.kill('SIGKILL');
    await exit;
  }
});

after(async () => {
  await endWith(service, 'SIGTERM');
  await installation.remove();
});

function example(name: 'worker-node/worker' | 'enqueue', queue: string, more: readonly string[] = []): Running {
  const running = runScript(`examples/${name}.js`, [...connection(queue), ...more]);
  others.push(running);
  return running;
}

function connection(queue: string): string[] {
  return ['--url', service.base, '--key-file', installation.keyFile, '--queue', queue];
}

async function counts(queue: string): Promise<Record<'scheduled' | 'ready' | 'leased' | 'dead', number>> {
  const { status, body, text } = await service.client.get(`/v1/queues/${queue}/stats`);
  assert.equal(status, 200, text);
  return body.counts;
}

function acked(worker: Running): number {
  return JSON.parse(worker.output().trim().split('\n').at(-1)!).acks as number;
}

test('a worker drains 10,000 jobs while the service is stopped and started again: each ends once, none is stuck', async () => {
  const filled = example('enqueue', 'drain', ['--count', '10000', '--ms', '1']);
  assert.equal((await filled.exit).code, 0, filled.output());
  assert.match(filled.output(), /^enqueued 10000 jobs in /);
  assert.equal((await counts('drain')).ready, 10_000);

  const worker = example('worker-node/worker', 'drain', ['--concurrency', '40']);
  await until('a fifth is done', async () => (await counts('drain')).ready < 8_000, 30_000);
  assert.equal((await endWith(service, 'SIGTERM')).code, 0, service.output());
  const before = await countsAfterStart();
  assert.ok(before.ready > 0, 'the stop came when all was done');
  const empty = { scheduled: 0, ready: 0, leased: 0, dead: 0 };
  await until(
    'all is done',
    async () => {
      const { scheduled, ready, leased, dead } = await counts('drain');
      return JSON.stringify({ scheduled, ready, leased, dead }) === JSON.stringify(empty);
    },
    60_000,
  );
  assert.equal(worker.child.exitCode, null, worker.output());
  assert.equal((await endWith(worker, 'SIGTERM')).code, 0, worker.output());
  assert.equal(acked(worker), 10_000, 'a job was run twice or its end not told');
  const [ended] = await installation.sql(`
    select count(*)::int as finished, count(distinct f.job_id)::int as jobs, count(*) filter (where f.attempt <> 1)::int as repeated
    from stint.finished f join stint.queue q on q.id = f.queue_id where q.name = 'drain' and f.state = 'completed'`);
  assert.deepEqual(ended, { finished: 10_000, jobs: 10_000, repeated: 0 });

  async function countsAfterStart() {
    service = await startService(installation);
    return counts('drain');
  }
});

const withoutPython = spawnSync('python3', ['--version']).error !== undefined && 'python3 is not installed';

for (const [language, skip] of [
  ['TypeScript', false],
  ['Python', withoutPython],
] as const) {
  const startWorker = (queue: string, more: readonly string[]): Running => {
    if (language === 'TypeScript') return example('worker-node/worker', queue, more);
    const running = runProgram('python3', [PYTHON_WORKER, ...connection(queue), ...more], {
      PYTHONDONTWRITEBYTECODE: '1',
    });
    others.push(running);
    return running;
  };
  const queueOf = (name: string): string => `${name}-${language.toLowerCase()}`;

  test(
    `C25: the ${language} worker that is told to stop hands its jobs back at once, no attempt spent`,
    { skip },
    async () => {
      const queue = queueOf('handback');
      const jobs = Array.from({ length: 50 }, () => ({ queue, payload: { ms: 60_000 } }));
      assert.equal((await service.client.post('/v1/jobs/batch', { jobs })).status, 201);
      const worker = startWorker(queue, ['--concurrency', '50']);
      await until('all are at work', async () => (await counts(queue)).leased === 50, 20_000);
      const { code, took } = await endWith(worker, 'SIGTERM');
      assert.equal(code, 0, worker.output());
      assert.ok(took < 5_000, `took ${took} ms`);
      const { ready, leased } = await counts(queue);
      assert.deepEqual([ready, leased], [50, 0]);
      const rows = await installation.sql(
        `
      select distinct r.attempt, r.releases, r.ended::text from stint.ready r join stint.queue q on q.id = r.queue_id
      where q.name = $1`,
        [queue],
      );
      assert.deepEqual(rows, [{ attempt: 0, releases: 1, ended: 'released' }]);
    },
  );

  test(
    `C25: the ${language} worker that is told to stop amid its work leaves no job leased and none undone`,
    { skip },
    async () => {
      const queue = queueOf('amid');
      const jobs = Array.from({ length: 1_000 }, () => ({ queue, payload: { ms: 5 } }));
      for (let batch = 0; batch < 3; batch += 1) {
        assert.equal((await service.client.post('/v1/jobs/batch', { jobs })).status, 201);
      }
      const worker = startWorker(queue, ['--concurrency', '20']);
      await until('some are done', async () => (await counts(queue)).ready < 2_700, 20_000);
      assert.equal((await endWith(worker, 'SIGTERM')).code, 0, worker.output());
      await until('none is leased', async () => (await counts(queue)).leased === 0, 2_000);
      const [ended] = await installation.sql(AMID, [queue]);
      assert.deepEqual(ended, { done: acked(worker), waiting: 3_000 - acked(worker), spent: 0 });
    },
  );
}
