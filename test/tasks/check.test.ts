import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { v7 } from 'uuid';
import type { Statement } from '../../src/db/pool.js';
import { createLog, type Log } from '../../src/observability/log.js';
import { createMetrics, type Metrics } from '../../src/observability/metrics.js';
import { createTasks } from '../../src/tasks/all.js';
import { createCheck } from '../../src/tasks/check.js';
import { INVARIANTS } from '../../src/tasks/invariants.js';
import type { Task } from '../../src/tasks/runner.js';
import { enqueue, lease, leased, leaseOne, putQueue, settleOk } from '../contract/jobs.js';
import { checkInvariants } from '../helpers/invariants.js';
import { noCallers } from '../helpers/callers.js';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import { openEngine } from '../model/real.js';

const IN_WINDOWS = ['in_two_places', 'in_no_place', 'without_body', 'in_wrong_queue'];

const BEGINNING = '00000000-0000-0000-0000-000000000000';
const EMPTY_WINDOW = { last: 'ffffffff-0000-7000-8000-000000000000', checked: 0, totals: null, breaches: null };

/** One fault of each kind: the statement that brings it about, and the rules that it breaks. */
const FAULTS: readonly (readonly [fault: string, text: string, broken: readonly string[]])[] = [
  [
    'a ready job that is scheduled, too',
    `insert into scheduled (due_at, job_id, queue_id, epoch, attempt, releases, size, rank, ended)
     select now(), job_id, queue_id, epoch, attempt, releases, size, rank, ended from ready where attempt = 0 limit 1`,
    ['in_two_places', 'wrong_counts'],
  ],
  [
    'a leased job that has finished, too',
    `insert into finished (job_id, ended_at, lease_id, queue_id, epoch, attempt, releases, rank, state, ended)
     select job_id, now(), lease_id, queue_id, epoch, attempt, releases, rank, 'completed', 'acked' from lease limit 1`,
    ['in_two_places'],
  ],
  [
    'a body whose place is gone',
    'delete from ready where job_id in (select job_id from ready where attempt = 0 limit 1)',
    ['in_no_place', 'wrong_counts'],
  ],
  [
    'a waiting job whose body is gone',
    'delete from job where id in (select job_id from ready where attempt = 0 limit 1)',
    ['without_body'],
  ],
  [
    'a dead job whose body is gone, though it did not die of that',
    'delete from job where id in (select job_id from dead limit 1)',
    ['without_body'],
  ],
  [
    'a place in another queue than its body',
    `update job set queue_id = (select id from queue where id <> job.queue_id limit 1)
     where id in (select job_id from ready where attempt = 0 and expires_at is null limit 1)`,
    ['in_wrong_queue'],
  ],
  [
    'a job of a queue that does not exist',
    `with body as (update job set queue_id = 1000000 where id in (select job_id from finished limit 1) returning id)
     update finished set queue_id = 1000000 where job_id in (select id from body)`,
    ['in_wrong_queue'],
  ],
  [
    'a count that is one too many',
    'insert into queue_count (queue_id, ready) select id, 1 from queue limit 1',
    ['wrong_counts'],
  ],
  [
    'a count below nothing',
    'insert into queue_count (queue_id, enqueued) select id, -1000 from queue limit 1',
    ['negative_counts'],
  ],
  [
    'an attempt of no job',
    `insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome)
     values (gen_random_uuid(), 1, 1, 1, now(), now(), 'nacked')`,
    ['stray_attempt'],
  ],
  [
    'an ended attempt of the lease under way',
    `insert into attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome)
     select job_id, epoch, attempt, lease_id, now(), now(), 'nacked' from lease where epoch = 1 limit 1`,
    ['attempt_under_way'],
  ],
  [
    'a lease id that was used twice',
    `update finished set lease_id = (select lease_id from lease limit 1)
     where job_id in (select job_id from finished where state = 'completed' limit 1)`,
    ['lease_id_twice'],
  ],
  [
    'an attempt that began before the one before it',
    `update attempt set started_at = started_at - interval '1 hour' where epoch = 2`,
    ['attempts_disordered'],
  ],
  [
    'more attempts than leases',
    'update ready set attempt = 5 where job_id in (select job_id from ready where attempt = 0 limit 1)',
    ['attempts_beyond_leases'],
  ],
  ['an expiry that nobody watches', 'delete from job_expiry', ['expiry_unwatched']],
  [
    'a key of a queue that does not exist',
    `insert into idempotency (queue_id, key, job_id, fingerprint, expires_at)
     values (1000000, 'k', gen_random_uuid(), '', now())`,
    ['stray_key'],
  ],
  ['a key that names another job', 'update idempotency set job_id = gen_random_uuid()', ['key_of_other_job']],
];

describe('the check', () => {
  let service: TestService;
  let client: Client;
  let db: pg.Client;

  before(async () => {
    service = await startTestService({}, createLog('fatal'));
    client = await service.tenant();
    await someOfEverything(client);
    db = new pg.Client({ connectionString: service.database.url, options: '-c search_path=stint' });
    await db.connect();
  });

  after(async () => {
    await db.end();
    await service.stop();
  });

  it('finds nothing where nothing is broken', async () => {
    const check = checkOn(db);
    assert.equal(await check.round(), 10);
    assert.deepEqual(check.logged(), []);
    assert.deepEqual(await check.gauge(), Object.fromEntries(IN_WINDOWS.map((breach) => [breach, 0])));
    await checkInvariants(service);
  });

  for (const [fault, text, broken] of FAULTS) {
    const found = broken.filter((breach) => IN_WINDOWS.includes(breach));
    const by = found.length > 0 ? 'by the rules and, within a round, by the task' : 'by the rules';
    it(`finds ${fault}, ${by}, and nothing else`, () =>
      inUndone(db, async () => {
        assert.ok((await db.query(text)).rowCount! > 0, 'the fault is planted');
        assert.deepEqual((await brokenRules(db)).toSorted(), broken.toSorted());
        const check = checkOn(db);
        await check.round();
        assert.deepEqual(
          check.logged().map(({ breach }) => breach),
          found,
        );
        const gauge = await check.gauge();
        for (const breach of IN_WINDOWS) assert.equal(gauge[breach], found.includes(breach) ? 1 : 0, breach);
      }));
  }

  it('has a fault for every rule', () => {
    const planted = new Set(FAULTS.flatMap(([, , broken]) => broken));
    assert.deepEqual(
      INVARIANTS.map(({ breach }) => breach).filter((breach) => !planted.has(breach)),
      [],
    );
  });

  it('leaves out what a closed queue holds, which is being deleted', () =>
    inUndone(db, async () => {
      await db.query('delete from job where id in (select job_id from dead)');
      await db.query('delete from ready');
      await db.query('update queue set closed_at = now()');
      const check = checkOn(db);
      await check.round();
      assert.deepEqual(check.logged(), []);
    }));

  it('logs a breach once, with the job and where it stands but not what it holds, and anew when it comes back', () =>
    inUndone(db, async () => {
      const check = checkOn(db);
      const [job] = (await db.query('delete from ready where attempt = 0 returning *')).rows;
      await check.round();
      const lines = check.logged();
      const line = lines.find(({ jobId }) => jobId === job.job_id)!;
      assert.deepEqual([line.level, line.queueId, line.places], ['error', job.queue_id, ['body']]);
      assert.match(line.msg, /a job with a body stands somewhere/);
      assert.doesNotMatch(JSON.stringify(lines), /secret-payload/);
      await check.round();
      assert.equal(check.logged().length, lines.length, 'a second round says nothing new');
      await db.query('savepoint broken');
      await db.query('delete from job where not exists (select from job_state s where s.job_id = job.id)');
      await check.round();
      assert.equal((await check.gauge())['in_no_place'], 0, 'the gauge follows what is there');
      await db.query('rollback to broken');
      await check.round();
      assert.equal(check.logged().length, 2 * lines.length);
    }));

  it('logs no more than a hundred of a window and says how many there are', () =>
    inUndone(db, async () => {
      await placeFinished(db, 300);
      await db.query('delete from finished');
      const check = checkOn(db);
      await check.round();
      const lines = check.logged();
      assert.equal(lines.filter(({ breach }) => breach === 'in_no_place').length, 100);
      const { found } = lines.find(({ logged }) => logged === 100)!;
      assert.ok(found >= 300);
      assert.equal((await check.gauge())['in_no_place'], found);
    }));

  it('goes round in windows of ten thousand ids, and meets every job once, those without a body too', () =>
    inUndone(db, async () => {
      await placeFinished(db, 25_000);
      await db.query(`delete from job where id in (select id from job order by id desc limit 12000)`);
      const [all] = (await db.query('select count(*)::int as n from job_state')).rows;
      const check = checkOn(db);
      assert.equal(await check.round(), all.n);
      assert.equal(check.windows(), 3);
      assert.deepEqual(check.logged(), []);
    }));

  it('makes its windows smaller while they take longer than a snapshot may be held, and larger again', async () => {
    const sizes: number[] = [];
    let failing = true;
    const timeout = Object.assign(new pg.DatabaseError('canceling statement', 0, 'error'), { code: '57014' });
    const task = createCheck({
      connections: {
        query: (_, values) => {
          sizes.push(values![1] as number);
          return failing ? Promise.reject(timeout) : Promise.resolve([EMPTY_WINDOW] as never[]);
        },
      },
      metrics: createMetrics(),
      log: createLog('silent'),
    });
    for (const size of [10_000, 5_000, 2_500, 1_250, 625, 312, 156, 100]) {
      if (size > 100) assert.equal((await runAlone(task)).next, 1_000);
      else await assert.rejects(runAlone(task), timeout);
      assert.equal(sizes.at(-1), size);
    }
    failing = false;
    for (const size of [100, 200, 400]) {
      await runAlone(task);
      assert.equal(sizes.at(-1), size);
    }
  });

  it('rests for a minute between two rounds, and says when one came round', async () => {
    const check = checkOn(db);
    const began = Date.now() / 1_000;
    assert.equal(await check.roundedAt(), 0);
    await check.round();
    assert.ok((await check.roundedAt()) >= began - 1);
    assert.equal(check.task.every, 60_000);
    assert.equal((await runAlone(check.task)).next, undefined, 'few jobs are a round by themselves');
  });

  it('finds nothing while jobs come, are leased and end on all sides', { timeout: 60_000 }, async () => {
    const metrics = createMetrics();
    const lines: string[] = [];
    const tasks = createTasks({
      url: service.database.url,
      callers: noCallers(service.database.url),
      auditRetentionDays: 400,
      background: true,
      metrics,
      log: logTo(lines, 'error'),
    });
    const { engine, close } = openEngine(service);
    const check = tasks.list.find(({ name }) => name === 'check')!;
    let ended = 0;
    let stopped = false;
    const work = Array.from({ length: 6 }, async (_, lane) => {
      while (!stopped) ended += await workOn(client, `busy-${lane % 3}`, lane);
    });
    try {
      for (let rounds = 0; rounds < 40 || ended < 200; rounds += 1) await check.run(engine);
      for (let times = 0; times < 2; times += 1) await checkInvariants(service);
    } finally {
      stopped = true;
      await Promise.all(work);
      await tasks.close();
      await close();
    }
    assert.deepEqual(lines, []);
    assert.equal((await gaugeOf(metrics))['in_two_places'], 0);
  });
});

/** A check whose reads go through this connection, so that they see what its transaction has done. */
function checkOn(db: pg.Client) {
  const lines: string[] = [];
  const metrics = createMetrics();
  let windows = 0;
  const task = createCheck({
    connections: {
      query: async <R>(statement: Statement, values?: readonly unknown[]) => {
        windows = values![0] === BEGINNING ? 1 : windows + 1;
        return (await db.query(statement.text, values as unknown[])).rows as R[];
      },
    },
    metrics,
    log: logTo(lines, 'error'),
  });
  /** Runs until it rests; answers how many jobs the walk from the beginning has met. */
  const round = async (): Promise<number> => {
    for (let checked = 0; ;) {
      const { counts, next } = await runAlone(task);
      checked = (windows === 1 ? 0 : checked) + counts['checked']!;
      if (next === undefined) return checked;
    }
  };
  return {
    task,
    round,
    windows: () => windows,
    logged: () => lines.map((line) => JSON.parse(line)),
    gauge: () => gaugeOf(metrics),
    roundedAt: async () => {
      const { body } = await metrics.render();
      return Number(/^stint_invariant_round_timestamp_seconds (\S+)$/m.exec(body)![1]);
    },
  };
}

/** The task asks nothing of the engine: it has connections of its own. */
function runAlone(task: Task): ReturnType<Task['run']> {
  return task.run(undefined as never);
}

function logTo(lines: string[], level: string): Log {
  return createLog(level, { write: (line: string) => void lines.push(line) });
}

async function gaugeOf(metrics: Metrics): Promise<Record<string, number>> {
  const { body } = await metrics.render();
  const found = [...body.matchAll(/^stint_invariant_breaches\{breach="(\w+)"\} (\S+)$/gm)];
  return Object.fromEntries(found.map(([, breach, value]) => [breach!, Number(value)]));
}

async function brokenRules(db: pg.Client): Promise<string[]> {
  const broken: string[] = [];
  for (const { breach, statement } of INVARIANTS) {
    const { rows } = await db.query(statement.text, [5]);
    if (rows.length > 0) broken.push(breach);
  }
  return broken;
}

/** Whatever is broken in it is whole again afterwards, and nobody else sees it. */
async function inUndone(db: pg.Client, run: () => Promise<void>): Promise<void> {
  await db.query('begin');
  try {
    await run();
  } finally {
    await db.query('rollback');
  }
}

async function placeFinished(db: pg.Client, count: number): Promise<void> {
  const ids = Array.from({ length: count }, () => v7());
  await db.query(
    `with given as (select unnest($1::uuid[]) as id, (select id from queue limit 1) as queue_id),
    body as (
      insert into job (id, queue_id, is_json, priority, run_at, created_at) select id, queue_id, true, 0, now(), now() from given)
    insert into finished (job_id, ended_at, queue_id, epoch, attempt, releases, rank, state, ended)
    select id, now(), queue_id, 0, 0, 0, 0, 'cancelled', 'none' from given`,
    [ids],
  );
}

/** Jobs in each place, with keys, expiries, attempts; in queues that nobody works on afterwards. */
async function someOfEverything(client: Client): Promise<void> {
  await putQueue(client, 'places');
  await putQueue(client, 'waiting');
  const more = { visibilityTimeout: '10m' };
  for (let n = 0; n < 3; n += 1) await settleOk(client, 'ack', await leased(client, 'places'));
  await settleOk(client, 'nack', await leased(client, 'places'), { final: true });
  await settleOk(client, 'nack', await leased(client, 'places', { payload: 'twice' }), { delay: '0s' });
  await settleOk(client, 'nack', await leaseOne(client, 'places'), { delay: '0s' });
  await leaseOne(client, 'places', more);
  await leased(client, 'places', {}, more);
  await enqueue(client, 'waiting', { payload: 'secret-payload' });
  await enqueue(client, 'waiting', { idempotencyKey: randomUUID() });
  await enqueue(client, 'waiting', { expiresAt: new Date(Date.now() + 3_600_000).toISOString() });
  await enqueue(client, 'waiting', { delay: '1h' });
}

/** A batch through its life, each end in its turn; answers how many jobs have ended. */
async function workOn(client: Client, queue: string, lane: number): Promise<number> {
  const jobs = Array.from({ length: 20 }, (_, n) => ({ queue, ...(n % 5 === lane ? { delay: '50ms' } : {}) }));
  assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
  const held = await lease(client, queue, { maxJobs: 20, wait: '1s' });
  if (held.length === 0) return 0;
  const tokens = held.map(({ leaseToken }) => ({ leaseToken }));
  const third = Math.ceil(tokens.length / 3);
  const settled = await client.post('/v1/leases/settle', {
    acks: tokens.slice(0, third),
    nacks: tokens
      .slice(third, 2 * third)
      .map((item) => ({ ...item, ...(lane % 2 ? { final: true } : { delay: '0s' }) })),
    releases: tokens.slice(2 * third),
  });
  assert.equal(settled.status, 200, settled.text);
  return third;
}
