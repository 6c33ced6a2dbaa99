import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../src/observability/log.js';
import { createMetrics } from '../../src/observability/metrics.js';
import type { QueuesSample } from '../../src/observability/queue-metrics.js';

test('a log line is JSON with an ISO time and the level in words, and hides secrets and payloads', () => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line: string) => void lines.push(line) });
  log.debug('not this');
  const headers = { authorization: 'Bearer xyz-1' };
  const row = Object.assign(new Error('violates'), { detail: 'Failing row contains (xyz-2)' });
  log.warn({ request: { headers }, job: { payload: 'xyz-3', id: 'j1' }, secret: 'xyz-4', err: row }, 'refused');
  assert.equal(lines.length, 1);
  const line = JSON.parse(lines[0]!);
  assert.match(line.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual([line.level, line.msg, line.job.id, line.err.message], ['warn', 'refused', 'j1', 'violates']);
  assert.doesNotMatch(lines[0]!, /xyz/);
});

test('of an error and its causes the log has message, stack and codes, and no value that a statement was about', () => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line: string) => void lines.push(line) });
  const refused = { severity: 'ERROR', code: '22P02', detail: 'xyz-1', where: 'xyz-2', parameters: ['xyz-3'] };
  const cause = Object.assign(new Error('invalid input syntax for type uuid: "xyz-4 "quoted""'), refused);
  const lost = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', config: { url: 'xyz-5' } });
  const error = new Error('it failed', { cause: new AggregateError([cause, lost], 'both failed') });
  log.error({ err: error }, 'failed');
  log.error({ err: 'a text' }, 'failed');
  const [first, second] = lines.map((line) => JSON.parse(line).err);
  assert.deepEqual([first.type, first.message, first.cause.message], ['Error', 'it failed', 'both failed']);
  const [one, other] = first.cause.errors;
  assert.deepEqual([one.code, one.message], ['22P02', 'invalid input syntax for type uuid: [redacted]']);
  assert.deepEqual([other.code, other.message], ['ECONNREFUSED', 'connect ECONNREFUSED']);
  assert.match(one.stack, /^Error: invalid input syntax for type uuid: \[redacted\]\n +at /);
  assert.doesNotMatch(lines.join(''), /xyz/);
  assert.deepEqual(second, { message: 'a text' });
});

const NONE = { scheduled: 0, ready: 0, leased: 0, dead: 0 };

function sampleOf(queue: string): QueuesSample {
  const counted = { enqueued: 5, completed: 2, failed: 0 };
  const queues = [{ tenant: 'acme', queue, counts: { ...NONE, ready: 3 }, oldestReady: 9, ...counted }];
  return { queues, other: NONE, scheduleLag: 0, dueJobLag: 4 };
}

test('C79: a queue that is no longer sampled vanishes from the metrics', async () => {
  const metrics = createMetrics();
  metrics.queues(sampleOf('old'), 60_000);
  const { body: before } = await metrics.render();
  assert.match(before, /^stint_queue_jobs\{tenant="acme",queue="old",state="ready"\} 3$/m);
  assert.match(before, /^stint_queue_oldest_ready_seconds\{tenant="acme",queue="old"\} 9$/m);
  assert.match(before, /^stint_queue_events_total\{tenant="acme",queue="old",event="enqueued"\} 5$/m);
  metrics.queues(sampleOf('new'), 60_000);
  const { body } = await metrics.render();
  assert.doesNotMatch(body, /queue="old"/);
  assert.equal(body.match(/queue="new"/g)!.length, 8);
});

const SAMPLED = /^stint_(queue|schedule|due_job|xmin|table)_\w+(\{.*\})? /m;

test('what was sampled vanishes when it is no longer news, when another instance shows it, and when LISTEN is lost', async () => {
  const metrics = createMetrics();
  const table = { table: 'ready', heap: 1, indexes: 1, live: 1, dead: 1, vacuumedAt: 1 };
  const storage = { holders: [{ holder: 'session', transactions: 7, seconds: 3 }], tables: [table] };
  const shown = async (): Promise<boolean> => SAMPLED.test((await metrics.render()).body);
  const sample = (milliseconds: number): void => {
    metrics.queues(sampleOf('mail'), milliseconds);
    metrics.storage(storage, milliseconds);
  };
  assert.equal(await shown(), false, 'before the first sample');
  for (const end of [
    () => sample(0),
    () => [metrics.queuesUnknown(), metrics.storageUnknown()],
    () => metrics.notificationsHealthy(false),
  ]) {
    sample(60_000);
    assert.equal(await shown(), true);
    end();
    assert.equal(await shown(), false, end.toString());
  }
});

test('an age that the database does not tell is not shown as nothing', async () => {
  const metrics = createMetrics();
  metrics.storage({ holders: [{ holder: 'standby', transactions: 7, seconds: null }], tables: [] }, 60_000);
  const { body } = await metrics.render();
  assert.match(body, /^stint_xmin_horizon_age_transactions\{holder="standby"\} 7$/m);
  assert.doesNotMatch(body, /^stint_xmin_horizon_age_seconds\{/m);
});

test('whether notifications are heard is not said before it is known', async () => {
  const metrics = createMetrics();
  assert.doesNotMatch((await metrics.render()).body, /^stint_notifications_healthy /m);
  metrics.notificationsHealthy(true);
  assert.match((await metrics.render()).body, /^stint_notifications_healthy 1$/m);
});

test('times to the first lease are counted in every bucket that they fit in', async () => {
  const metrics = createMetrics();
  metrics.claimed(5, [0, 0.001, 0.0011, 100_000]);
  const { body } = await metrics.render();
  for (const line of [
    '_bucket{le="0.001"} 2',
    '_bucket{le="0.0025"} 3',
    '_bucket{le="86400"} 3',
    '_bucket{le="+Inf"} 4',
    '_sum 100000.0021',
    '_count 4',
  ]) {
    assert.ok(body.includes(`stint_pick_up_seconds${line}\n`), line);
  }
  assert.ok(body.includes('stint_jobs_total{event="redelivered"} 1\n'));
});

test('names of tenants and queues are escaped in labels', async () => {
  const metrics = createMetrics();
  metrics.queues(sampleOf('a"b\\c\nd'), 60_000);
  const { body } = await metrics.render();
  assert.ok(body.includes('queue="a\\"b\\\\c\\nd",state="ready"} 3\n'), body);
});

test('what tasks did to jobs is counted among the events of jobs', async () => {
  const metrics = createMetrics();
  metrics.task('return-expired', 'ok', 0.1, { expired: 5, dead: 2, cancelled: 1 });
  metrics.task('expire-jobs', 'ok', 0.1, { expired: 4 });
  const { body } = await metrics.render();
  for (const [event, count] of [
    ['expired', 5],
    ['dead', 6],
    ['cancelled', 1],
    ['enqueued', 0],
  ]) {
    assert.ok(body.includes(`stint_jobs_total{event="${event}"} ${count}\n`), `${event}: ${count}`);
  }
});

test('two services in one process have metrics of their own', async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.jobs('enqueued', 5);
  assert.match((await one.render()).body, /stint_jobs_total\{event="enqueued"\} 5/);
  assert.match((await other.render()).body, /stint_jobs_total\{event="enqueued"\} 0/);
});

test('batches, tasks, pools and idle waits are counted under their names', async () => {
  const metrics = createMetrics();
  metrics.flush({ kind: 'enqueue', rows: 7, seconds: 0.004, waitedSeconds: 0.001, result: 'ok' });
  metrics.flush({ kind: 'enqueue', rows: 1, seconds: 0.004, waitedSeconds: 0, result: 'error' });
  metrics.task('prune', 'ok', 0.2, { jobs: 12 });
  metrics.task('prune', 'error', 0.2);
  metrics.pool({ name: 'claim', total: 4, idle: 1, waiting: 2 });
  metrics.operationWaited('Lease', 'http', 20);
  metrics.notificationsHealthy(false);
  const { body } = await metrics.render();
  for (const line of [
    'stint_batch_rows_sum{kind="enqueue"} 8',
    'stint_batch_failures_total{kind="enqueue"} 1',
    'stint_task_rows_total{task="prune",count="jobs"} 12',
    'stint_task_runs_total{task="prune",result="error"} 1',
    'stint_pool_connections{pool="claim",state="idle"} 1',
    'stint_pool_waiting{pool="claim"} 2',
    'stint_operation_wait_seconds_total{operation="Lease",transport="http"} 20',
    'stint_notifications_healthy 0',
  ]) {
    assert.ok(body.includes(`${line}\n`), line);
  }
});
