import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createLog } from '../src/observability/log.js';
import { enqueue, get, lease, settleOk } from './contract/jobs.js';
import { type Client, startTestService, type TestService, until } from './helpers/service.js';

let service: TestService;
let client: Client;

before(async () => {
  // The first test brings about an error that is logged; its line is not this test's matter.
  service = await startTestService({}, createLog('fatal'));
  client = await service.tenant();
});
after(() => service.stop());

test('a job whose body is gone is never handed out: it is dead, counted, and its neighbours are leased', async () => {
  const [broken, whole] = [await enqueue(client, 'bodies'), await enqueue(client, 'bodies', { payload: 1 })];
  await service.sql('delete from stint.job where id = $1::uuid', [broken]);
  const jobs = await lease(client, 'bodies', { maxJobs: 10 });
  assert.deepEqual(
    jobs.map(({ id, payload }) => [id, payload]),
    [[whole, 1]],
  );
  const job = await get(client, broken);
  assert.deepEqual([job.state, job.deadReason], ['dead', 'body_missing']);
  await settleOk(client, 'ack', jobs[0]);
  const { counts } = (await client.get('/v1/queues/bodies')).body;
  assert.deepEqual(counts, { scheduled: 0, ready: 0, leased: 0, dead: 1 });
  const metrics = await (await fetch(`${service.base}/metrics`)).text();
  assert.match(metrics, /stint_jobs_total\{event="dead"\} 1\n/);
});

test('the gauge of items that wait for a statement is nought when none does', async () => {
  await enqueue(client, 'waiting');
  const metrics = await (await fetch(`${service.base}/metrics`)).text();
  assert.match(metrics, /^stint_batch_waiting_rows\{kind="enqueue"\} 0$/m);
});

test('dead rows of the hot tables are cleared away by the service itself', async () => {
  const jobs = Array.from({ length: 1_000 }, () => ({ queue: 'traces' }));
  for (let round = 0; round < 3; round += 1) {
    assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
    const held = await lease(client, 'traces', { maxJobs: 1_000 });
    const items = held.map(({ leaseToken }) => ({ leaseToken }));
    assert.equal((await client.post('/v1/leases/ack', { items })).status, 200);
  }
  const vacuumed = async (): Promise<boolean> => {
    const rows = await service.sql(
      `select from pg_stat_user_tables
       where schemaname = 'stint' and relname in ('ready', 'scheduled', 'lease', 'queue_count') and vacuum_count > 0`,
    );
    return rows.length === 4;
  };
  await until('all four have been vacuumed', vacuumed, 40_000);
});
