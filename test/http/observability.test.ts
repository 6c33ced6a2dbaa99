import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../src/observability/log.js';
import { createMetrics } from '../../src/observability/metrics.js';

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

test('C79: a queue that is no longer sampled vanishes from the metrics', async () => {
  const metrics = createMetrics();
  metrics.queueDepth([{ tenant: 'acme', queue: 'old', state: 'ready', value: 3 }]);
  metrics.oldestAge([{ tenant: 'acme', queue: 'old', value: 9 }]);
  assert.match((await metrics.render()).body, /stint_queue_jobs\{tenant="acme",queue="old",state="ready"\} 3/);
  metrics.queueDepth([{ tenant: 'acme', queue: 'new', state: 'ready', value: 1 }]);
  metrics.oldestAge([]);
  const { body } = await metrics.render();
  assert.doesNotMatch(body, /queue="old"/);
  assert.match(body, /queue="new"/);
});

test('two services in one process have metrics of their own', async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.jobs('enqueued', 5);
  assert.match((await one.render()).body, /stint_jobs_total\{event="enqueued"\} 5/);
  assert.doesNotMatch((await other.render()).body, /event="enqueued"/);
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
