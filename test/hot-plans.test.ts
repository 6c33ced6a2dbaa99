import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { Departure } from '../src/core/departure.js';
import { claimKind } from '../src/jobs/claim.js';
import { enqueueKind } from '../src/jobs/enqueue-flush.js';
import { createMetrics } from '../src/observability/metrics.js';
import { createLog } from '../src/observability/log.js';
import { createTasks } from '../src/tasks/all.js';
import { createBackground, openEngine } from './model/real.js';
import { UNKNOWN_ID } from './contract/jobs.js';
import { createDatabase, otherPostgres, query, type TestDatabase } from './helpers/postgres.js';
import { noCallers } from './helpers/callers.js';
import { callerOf } from './helpers/context.js';
import { scalerClient } from './helpers/scaler.js';
import { startTestService, type TestService, until } from './helpers/service.js';
import { genericPlan, type PlanNode, recordStatements, type SeenStatement } from './helpers/statements.js';

const SOURCES = new URL('../../src/', import.meta.url);
const HOT_TABLES = new Set(['ready', 'scheduled', 'lease', 'job', 'finished', 'dead', 'attempt', 'idempotency']);
/** Their plans are made once and kept, so they must be right for every size; the others are planned for what they find. */
const HOT_POOLS = new Set(['enqueue', 'claim', 'settle', 'heartbeat']);
/** Every statement of the hot pools, and some of the others that matter most. */
const MUST_BE_SEEN = [
  ...[
    'enqueue enqueue',
    'enqueue enqueue-find',
    'enqueue idempotency-take',
    'enqueue idempotency-read',
    'claim claim',
    'claim claim-lock-limited',
    'claim poll-work',
  ],
  ...[
    'settle ack',
    'settle ack-late',
    'settle hand-back',
    'settle lease-standing',
    'settle claim-body-missing',
    'heartbeat heartbeat',
    'heartbeat lease-standing',
  ],
  ...[
    'tasks promote-due',
    'tasks expire-jobs',
    'check check-window',
    'ordinary job-cancel',
    'ordinary job-update',
    'ordinary dead-redrive',
    'ordinary queue-depths',
  ],
];

/**
 * Statements that may read a table whole, none of them on a pool of the hot path.
 * `lease` holds what is running now and no index on its expiry, which heartbeats would pay for.
 */
const READS_WHOLE: Readonly<Record<string, readonly string[]>> = {
  'tasks return-expired': ['lease'],
  'tasks claim-give-back': ['lease'],
  'tasks delete-queues-chunk': ['lease'],
  'tasks delete-queues-row': ['lease'],
  'ordinary queue-settle-closing': ['lease'],
  'ordinary queue-stats-workers': ['lease'],
  // A filter of the caller's own over one queue's dead letters, by index dead_queue.
  'ordinary dead-redrive-match': ['dead'],
  'ordinary dead-redrive': ['dead'],
  'ordinary dead-delete-match': ['dead'],
  'ordinary dead-delete': ['dead'],
};

/** Statements on a hot table that are not explained. */
const WITHOUT_PLAN = ['vacuum-ready', 'vacuum-scheduled', 'vacuum-lease'];
const WITHOUT_TABLES = /^(begin|commit|rollback)$/;

const FULL_ROWS = 100_000;

describe('plans', () => {
  let seen: ReadonlyMap<string, SeenStatement>;

  before(async () => {
    const recording = recordStatements();
    // A job whose body is gone is logged as an error; here it is meant.
    const service = await startTestService({}, createLog('fatal'));
    try {
      await useEverything(service);
      await runTasks(service);
      // The service's own tasks go on meanwhile, and some of what they do takes two looks. What is missing after that is told below.
      await until('every statement has run', () => unseen(recording.seen).length === 0, 15_000).catch(() => undefined);
    } finally {
      await service.stop();
      recording.stop();
    }
    seen = recording.seen;
  });

  it('are known of every statement that matters here', () => {
    assert.deepEqual(
      MUST_BE_SEEN.filter((name) => !seen.has(name)),
      [],
    );
  });

  it('are of every statement of the hot pools by name, so that none is forgotten here', () => {
    const hot = [...seen.values()].filter(({ pool, name }) => HOT_POOLS.has(pool) && !WITHOUT_TABLES.test(name));
    const listed = new Set(MUST_BE_SEEN);
    assert.deepEqual(
      hot.map(({ pool, name }) => `${pool} ${name}`).filter((name) => !listed.has(name)),
      [],
    );
  });

  it('are of every statement in the sources that names a hot table', () => {
    assert.deepEqual(unseen(seen), []);
  });

  for (const version of ['the current PostgreSQL', 'PostgreSQL 15']) {
    describe(`on ${version}`, () => {
      let database: TestDatabase | undefined;

      before(async () => {
        const server = version === 'PostgreSQL 15' ? await otherPostgres() : undefined;
        if (version === 'PostgreSQL 15' && server === undefined) return;
        database = await createDatabase(server);
        await query(database.url, 'analyze');
      });

      after(() => database?.drop());

      for (const [size, rows] of [
        ['empty', 0],
        ['small', 100],
        ['full', FULL_ROWS],
        ['full and analyzed', 0],
      ] as const) {
        it(`find what they touch by index conditions alone when tables are ${size}`, async (t) => {
          if (database === undefined) return t.skip('no PostgreSQL 15 on this machine');
          if (rows > 0) await fill(database.url, rows);
          if (size === 'full and analyzed') await query(database.url, 'analyze');
          const faults: string[] = [];
          for (const [name, statement] of seen) {
            if (WITHOUT_TABLES.test(statement.name) || statement.pool === 'vacuum') continue;
            if (!HOT_POOLS.has(statement.pool) && statement.pool !== 'check' && !size.startsWith('full')) continue;
            for (const node of await genericPlan(database.url, statement)) {
              const fault = faultOf(node, READS_WHOLE[name] ?? []);
              if (fault !== undefined) faults.push(`${name}: ${fault}`);
            }
          }
          assert.deepEqual(faults, []);
        });
      }
    });
  }

  it('of the hot path are never excepted', () => {
    const exceptions = Object.keys(READS_WHOLE).filter((name) => HOT_POOLS.has(name.split(' ')[0]!));
    assert.deepEqual(exceptions, []);
  });
});

/** Names of the statements in the sources that name a hot table and have not run. */
function unseen(seen: ReadonlyMap<string, SeenStatement>): string[] {
  const ran = new Set([...seen.values()].map(({ name }) => name));
  const hot = new RegExp(`\\b(${[...HOT_TABLES, 'job_state'].join('|')})\\b`);
  return readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => [...readFileSync(new URL(file, SOURCES), 'utf8').matchAll(STATEMENT)])
    .filter(([, name, text]) => hot.test(text!) && !ran.has(name!) && !WITHOUT_PLAN.includes(name!))
    .map(([, name]) => name!);
}

const STATEMENT = /\bname: '([a-z0-9-]+)',\s+text: (`[^`]*`|'[^']*')/g;

/** What is wrong with how a node finds its rows, if it is a node that reads a hot table. */
function faultOf(node: PlanNode, readsWhole: readonly string[]): string | undefined {
  const { 'Node Type': type, 'Relation Name': table, 'Index Cond': condition, Filter: filter } = node;
  if (type === 'Bitmap Index Scan') {
    const isHot = [...HOT_TABLES].some((hot) => node['Index Name']?.startsWith(`${hot}_`) === true);
    return isHot && condition === undefined ? `reads the whole of index ${node['Index Name']}` : undefined;
  }
  if (table === undefined || !HOT_TABLES.has(table) || readsWhole.includes(table)) return undefined;
  switch (type) {
    case 'ModifyTable':
    case 'LockRows':
      return undefined;
    case 'Tid Scan':
      return node['TID Cond'] === undefined ? `scans ${table}` : undefined;
    case 'Bitmap Heap Scan':
      return byFilter(filter, table);
    case 'Index Scan':
    case 'Index Only Scan':
      return condition === undefined ? `reads the whole of index ${node['Index Name']}` : byFilter(filter, table);
    default:
      return `${type} on ${table}`;
  }
}

/** Which job is meant must be part of the index condition, never looked for among rows found otherwise. */
function byFilter(filter: string | undefined, table: string): string | undefined {
  if (table === 'idempotency') return undefined;
  const column = table === 'job' ? 'id' : 'job_id';
  return filter !== undefined && new RegExp(`(?<![\\w.])(?:\\w+\\.)?${column} = `).test(filter)
    ? `looks for ${column} of ${table} by the filter ${filter}`
    : undefined;
}

/** Each call of the contract at least once. */
async function useEverything(service: TestService): Promise<void> {
  const client = await service.tenant();
  const call = async (method: string, path: string, body?: unknown): Promise<any> => {
    const answer = await client.request(method, `/v1/${path}`, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
    return answer.body;
  };
  const lease = async (): Promise<any> =>
    (await call('POST', 'queues/q/lease', { wait: '5s', visibilityTimeout: '1m' })).jobs[0];
  const expire = (id: string): Promise<any[]> =>
    service.sql(
      `update stint.lease set lease_expires_at = clock_timestamp() - interval '1 second' where job_id = $1::uuid`,
      [id],
    );

  await call('PUT', 'webhooks/w', {
    url: 'https://hooks.invalid/',
    events: ['job.dead', 'queue.backlog'],
    backlog: { depth: 1, oldestAge: '1s' },
    includePayload: true,
    paused: true,
  });
  await call('PUT', 'queues/q', { maxAttempts: 2, retainPayload: '1s', maxBacklog: 1_000 });
  await call('POST', 'queues/q/jobs', { idempotencyKey: 'k', payload: 1 });
  await call('POST', 'queues/q/jobs', { idempotencyKey: 'k', payload: 1 });
  const future = new Date(Date.now() + 3_600_000).toISOString();
  await call('POST', 'jobs/batch', {
    jobs: [
      ...Array.from({ length: 8 }, () => ({ queue: 'q' })),
      { queue: 'q', delay: '1h' },
      { queue: 'q', expiresAt: future },
    ],
  });
  for (const verb of ['ack', 'nack', 'release', 'heartbeat']) {
    const { id, leaseToken } = await lease();
    await call('POST', `jobs/${id}/${verb}`, { leaseToken });
    await client.post(`/v1/jobs/${id}/${verb === 'heartbeat' ? 'nack' : 'heartbeat'}`, { leaseToken });
    await client.post(`/v1/jobs/${id}/release`, { leaseToken });
    await call('GET', `jobs/${id}`);
  }
  const late = await lease();
  await expire(late.id);
  await call('POST', `jobs/${late.id}/ack`, { leaseToken: late.leaseToken });
  const returned = await lease();
  await expire(returned.id);
  const background = createBackground(service);
  await background.noticeExpiry([returned.id]).finally(() => background.close());
  await call('POST', `jobs/${returned.id}/ack`, { leaseToken: returned.leaseToken });
  // So many that what a claim walks over is worth shortening.
  await call('POST', 'jobs/batch', { jobs: Array.from({ length: 300 }, () => ({ queue: 'many' })) });
  await call('POST', 'queues/many/lease', { maxJobs: 300 });
  const broken = (await call('POST', 'queues/broken/jobs', {})).id;
  await service.sql('delete from stint.job where id = $1::uuid', [broken]);
  await call('POST', 'queues/broken/lease', {});
  const dying = await lease();
  await call('POST', `jobs/${dying.id}/nack`, { leaseToken: dying.leaseToken, final: true });
  for (const path of [
    'jobs',
    'jobs?state=scheduled',
    'jobs?state=completed',
    'jobs?state=dead',
    'jobs?idempotencyKey=k',
    'dead',
    'stats',
    '',
  ]) {
    await call('GET', `queues/q/${path}`.replace(/\/$/, ''));
  }
  const [waiting] = (await call('GET', 'queues/q/jobs?state=ready')).jobs;
  await call('PATCH', `jobs/${waiting.id}`, { priority: 3 });
  await call('POST', 'queues/q/dead/redrive', {});
  await call('POST', `jobs/${waiting.id}/cancel`, {});
  await call('POST', 'queues/q/dead/delete', {});
  await call('POST', 'queues/q/purge');
  await call('PUT', 'queues/limited', { maxInFlight: 5, rateLimit: { jobs: 100, per: '1s' } });
  await call('POST', 'queues/limited/jobs', {});
  await call('POST', 'queues/limited/lease', { wait: '5s' });
  await call('POST', 'queues/gone/jobs', {});
  await call('DELETE', 'queues/gone?force=true');
  await call('PUT', 'queues/empty', {});
  await call('DELETE', 'queues/empty');
  await call('PUT', 'schedules/s', { cron: '* * * * *', queue: 'q', overlap: 'skip' });
  await call('POST', 'schedules/s/run');
  await service.sql(`update stint.tenant set limits = '{"storedJobs": 1000000}'`);
  await service.sql(
    `update stint.schedule set next_fire_at = date_trunc('minute', now()), look_at = date_trunc('minute', now()), overlap = 'allow'`,
  );
  await call('GET', 'queues');
  await call('GET', 'webhooks');
  await call('GET', 'tenant');
  const keda = scalerClient(service.grpc);
  await keda.isActive({ apiKey: client.key, queue: 'q', metric: 'oldestAge' });
  keda.close();
}

/** Each background task until it has no more to do, and the statements that only a lost connection brings about. */
async function runTasks(service: TestService): Promise<void> {
  const { engine, close } = openEngine(service);
  const tasks = tasksOf(service);
  try {
    const waiting = engine.endings.wait({
      jobId: UNKNOWN_ID,
      milliseconds: 60_000,
      departure: new Departure(),
      park: () => () => undefined,
    });
    for (const task of tasks.list) while ((await task.run(engine)).again);
    engine.endings.close();
    await waiting;
    await claimKind.giveBack(engine.database.tasks, ['1']);
    await enqueueKind.flush(engine.database.enqueue, [], true);
  } finally {
    await tasks.close();
    await close();
  }
}

function tasksOf(service: TestService): ReturnType<typeof createTasks> {
  const { url } = service.database;
  const callers = noCallers(url);
  // Of a tenant whose stored jobs are counted.
  callers.allowances.jobs(
    callerOf({
      id: UNKNOWN_ID,
      name: 'limited',
      autoCreateQueues: true,
      limits: { storedJobs: 10, jobsPerSecond: 10 },
    }),
    1,
  );
  return createTasks({
    url,
    callers,
    auditRetentionDays: 400,
    background: true,
    metrics: createMetrics(),
    log: createLog('error'),
  });
}

/** Fills every hot table without telling the planner: these were analysed while empty. */
async function fill(url: string, rows: number): Promise<void> {
  const carried = 'epoch, attempt, releases, size';
  const values = '1, 1, 0, 10';
  const some = `from generate_series(1, $1::int) as n`;
  const fills = [
    `insert into stint.ready (queue_id, rank, job_id, ready_at, ${carried}, ended) select n % 100, 0, gen_random_uuid(), now(), ${values}, 'none' ${some}`,
    `insert into stint.scheduled (queue_id, rank, job_id, due_at, ${carried}, ended) select n % 100, 0, gen_random_uuid(), now() + n * interval '1 second', ${values}, 'none' ${some}`,
    `insert into stint.lease (queue_id, rank, job_id, lease_id, leased_at, lease_expires_at, duration, ${carried}) select n % 100, 0, gen_random_uuid(), n, now(), now() + interval '1 hour', 1000, ${values} ${some}`,
    `insert into stint.dead (queue_id, rank, job_id, ended_at, reason, ${carried}, ended) select n % 100, 0, gen_random_uuid(), now(), 'final', ${values}, 'nacked' ${some}`,
    `insert into stint.finished (queue_id, rank, job_id, ended_at, state, epoch, attempt, releases, ended) select n % 100, 0, gen_random_uuid(), now(), 'completed', 1, 1, 0, 'acked' ${some}`,
    `insert into stint.job (id, queue_id, is_json, priority, run_at, created_at) select gen_random_uuid(), n % 100, true, 0, now(), now() ${some}`,
    `insert into stint.attempt (job_id, epoch, attempt, lease_id, started_at, ended_at, outcome) select gen_random_uuid(), 1, 1, n, now(), now(), 'nacked' ${some}`,
    `insert into stint.idempotency (queue_id, key, job_id, fingerprint, expires_at) select n % 100, $1::text || '-' || n, gen_random_uuid(), '', now() + n * interval '1 second' ${some}`,
  ];
  for (const text of fills) await query(url, text.replaceAll('$1::text', `'${rows}'`), [rows]);
}
