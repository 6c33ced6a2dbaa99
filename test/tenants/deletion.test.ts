import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { grpcClient } from '../helpers/grpc.js';
import { checkInvariants } from '../helpers/invariants.js';
import { startProxy } from '../helpers/proxy.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, lease, leaseOne, NOT_FOUND, putQueue, settleOk } from '../contract/jobs.js';

/** Three turns of tasks that run every 10 s: queues are closed, emptied and deleted, and then the tenant. */
const TASKS_MS = 60_000;
const QUEUES = ['a', 'b', 'c'];
const REFUSED = { status: 401, code: 'UNAUTHENTICATED' };

/** Ids of everything of a tenant. */
interface Owned {
  readonly tenants: readonly string[];
  readonly queues: readonly number[];
  readonly jobs: readonly string[];
}

let service: TestService;
before(async () => {
  service = await startTestService();
});
after(() => service.stop());

/** Jobs in every state, in queues that send their dead to one another, with keys, expiries, attempts and rates. */
async function fill(client: Client, jobs: number): Promise<void> {
  await putQueue(client, 'a', { deadLetterQueue: 'b', rateLimit: { jobs: 10_000, per: '1s' } });
  await putQueue(client, 'b', { deadLetterQueue: 'c' });
  await putQueue(client, 'c');
  await client.put('/v1/queues/idle', { deadLetterQueue: 'a' });
  assert.equal((await client.put('/v1/schedules/yearly', { cron: '@yearly', queue: 'a' })).status, 200);
  for (let from = 0; from < jobs; from += 1_000) {
    const batch = Array.from({ length: Math.min(1_000, jobs - from) }, (_, index) => {
      const n = from + index;
      return {
        queue: QUEUES[n % 3],
        kind: 'work',
        payload: { n },
        ...(n % 5 === 0 ? { delay: '1h' } : {}),
        ...(n % 7 === 0 ? { idempotencyKey: `key-${n}` } : {}),
        ...(n % 11 === 0 ? { expiresAt: '2101-01-01T00:00:00Z' } : {}),
      };
    });
    const answer = await client.post('/v1/jobs/batch', { jobs: batch });
    assert.equal(answer.status, 201, answer.text.slice(0, 300));
  }
  for (const queue of QUEUES) {
    const [done, failed, retried, cancelled] = await lease(client, queue, { maxJobs: 4, visibilityTimeout: '12h' });
    await settleOk(client, 'ack', done, { result: { ok: true } });
    await settleOk(client, 'nack', failed, { final: true, error: { message: 'no' } });
    await settleOk(client, 'nack', retried, { delay: '1h' });
    await client.post(`/v1/jobs/${cancelled.id}/cancel`, { force: true });
    assert.equal((await lease(client, queue, { maxJobs: 100, visibilityTimeout: '12h' })).length, 100);
  }
}

async function ownedBy(tenant: string): Promise<Owned> {
  const [found] = await service.sql(
    `select array_agg(distinct q.id) as queues, array_agg(j.id) filter (where j.id is not null) as jobs
     from stint.queue q
     left join stint.job j on j.queue_id = q.id
     where q.tenant_id = $1`,
    [tenant],
  );
  return { tenants: [tenant], queues: found.queues, jobs: found.jobs };
}

/** Columns in which such ids stand, of every table but the audit log, which outlives what it tells of. */
const COLUMNS: Readonly<Record<string, keyof Owned>> = {
  tenant_id: 'tenants',
  subject_id: 'tenants',
  queue_id: 'queues',
  dead_letter_queue_id: 'queues',
  job_id: 'jobs',
  'tenant.id': 'tenants',
  'queue.id': 'queues',
  'job.id': 'jobs',
};

/** How many rows of each table still name something of theirs. */
async function leftOf(owned: Owned): Promise<Record<string, number>> {
  const columns = await service.sql(
    `select c.table_name as "table", c.column_name as "column"
     from information_schema.columns c
     join information_schema.tables t using (table_schema, table_name)
     where c.table_schema = 'stint' and t.table_type = 'BASE TABLE' and c.table_name <> 'audit_event'`,
  );
  const left: Record<string, number> = {};
  let looked = 0;
  for (const { table, column } of columns) {
    const ids = COLUMNS[column as string] ?? COLUMNS[`${table}.${column}`];
    if (ids === undefined) continue;
    looked += 1;
    const type = ids === 'queues' ? 'int[]' : 'uuid[]';
    const text = `select count(*)::int as rows from stint."${table}" where "${column}" = any($1::${type})`;
    const [{ rows }] = await service.sql(text, [owned[ids]]);
    if (rows > 0) left[`${table}.${column}`] = rows as number;
  }
  assert.ok(looked >= 14, `${looked} columns`);
  return left;
}

async function standing(client: Client): Promise<unknown> {
  const queues = (await client.get('/v1/queues')).body.queues;
  const jobs = [];
  for (const queue of QUEUES) {
    jobs.push((await client.get(`/v1/queues/${queue}/jobs?limit=1000&include=attempts`)).body.jobs);
  }
  return { queues, jobs, tenant: (await client.get('/v1/tenant')).body };
}

describe('deleting a tenant', () => {
  let neighbour: Client;
  before(async () => {
    neighbour = await service.tenant();
    await fill(neighbour, 500);
    const dead = async (queue: string) => (await neighbour.get(`/v1/queues/${queue}`)).body.counts.dead as number;
    await until('its dead have gone where they go', async () => (await dead('a')) + (await dead('b')) === 0);
  });

  test('refuses its keys at once, frees its name, and leaves no row of it; its neighbour notices nothing', async () => {
    const { admin } = service;
    const client = await service.tenant({ name: 'victim' });
    await fill(client, 5_000);
    const scopes = ['enqueue', 'work', 'read', 'manage'];
    const more = await client.post('/v1/keys', { name: 'more', scopes });
    await client.post('/v1/keys', { name: 'revoked', scopes });
    await client.delete('/v1/keys/revoked');
    const keys = [client, clientFor(service.base, more.body.secret as string)];
    const { id } = (await client.get('/v1/tenant')).body;
    const leased = await leaseOne(client, 'a', { visibilityTimeout: '12h' });
    const parked = client.post('/v1/queues/idle/lease', { wait: '60s' });
    const owned = await ownedBy(id as string);
    assert.equal(owned.jobs.length, 5_000);
    const names = Object.keys(await leftOf(owned));
    for (const table of [
      'ready',
      'scheduled',
      'lease',
      'dead',
      'finished',
      'attempt',
      'idempotency',
      'job_expiry',
      'queue_rate',
      'schedule',
    ]) {
      assert.ok(
        names.some((name) => name.startsWith(`${table}.`)),
        `${table} has rows of it`,
      );
    }
    const before = await standing(neighbour);

    const answer = await admin.delete('/v1/admin/tenants/victim');
    assert.equal(answer.status, 202);
    assert.deepEqual(answer.body, { id, name: 'victim' });
    for (const key of keys) assertProblem(await key.get('/v1/queues'), REFUSED);
    assertProblem(await client.post(`/v1/jobs/${leased.id}/ack`, { leaseToken: leased.leaseToken }), REFUSED);
    assertProblem(await parked, REFUSED);
    for (const name of ['victim', id]) {
      assertProblem(await admin.get(`/v1/admin/tenants/${name}`), NOT_FOUND);
      assertProblem(await admin.delete(`/v1/admin/tenants/${name}`), NOT_FOUND);
      assertProblem(await admin.post(`/v1/admin/tenants/${name}/resume`), NOT_FOUND);
    }
    const listed = (await admin.get('/v1/admin/tenants?limit=1000')).body.tenants;
    assert.ok(!listed.some((tenant: { id: string }) => tenant.id === id));

    const next = await service.tenant({ name: 'victim' });
    assert.deepEqual((await next.get('/v1/queues')).body.queues, []);
    assertProblem(await next.get(`/v1/jobs/${leased.id}`), NOT_FOUND);
    assertProblem(await next.post(`/v1/jobs/${leased.id}/ack`, { leaseToken: leased.leaseToken }), NOT_FOUND);
    for (const queue of QUEUES) assert.deepEqual(await lease(next, queue, { maxJobs: 10 }), []);
    const job = { idempotencyKey: 'key-0', payload: 'its own' };
    const enqueued = await next.post('/v1/queues/a/jobs', job);
    assert.equal(`${enqueued.status} ${enqueued.body.deduplicated}`, '201 false');

    await until('no row is left', async () => Object.keys(await leftOf(owned)).length === 0, TASKS_MS);
    assert.equal((await leaseOne(next, 'a')).payload, 'its own');
    assert.deepEqual(await standing(neighbour), before);
    const [event] = await service.sql(
      `select tenant_id from stint.audit_event where action = 'DeleteTenant' and target = 'tenant victim'`,
    );
    assert.equal(event.tenant_id, id);
    await checkInvariants(service);
  });

  test('takes what comes over an instance that has not heard of it along, and no call there fails otherwise', async () => {
    const client = await service.tenant({ name: 'raced' });
    const { id } = (await client.get('/v1/tenant')).body;
    const proxy = await startProxy(service.database.url);
    const other = await service.another({ STINT_DATABASE_URL: proxy.url });
    try {
      await until('it listens', () => [...proxy.links].some((link) => link.name === 'stint wakeups'));
      Object.assign(proxy.rules, {
        toClient: (_: Buffer, link: { readonly name: string }) => (link.name === 'stint wakeups' ? 'drop' : 'pass'),
      });
      const there = clientFor(other.base, client.key);
      assert.equal((await there.post('/v1/queues/known/jobs', {})).status, 201);
      await service.admin.delete('/v1/admin/tenants/raced');
      const jobs: string[] = [];
      const began = performance.now();
      assert.equal((await there.put('/v1/queues/made-late', {})).status, 200);
      for (let status = 0, n = 0; status !== 401; n += 1) {
        const answer = await there.post('/v1/queues/known/jobs', { idempotencyKey: `k${n}` });
        ({ status } = answer);
        // 503 once the queue is being deleted.
        assert.ok([201, 401, 503].includes(status), answer.text);
        if (status === 201) jobs.push(answer.body.id as string);
        assert.ok(performance.now() - began < 5_000, 'it is let in for longer than 5 s');
      }
      assert.ok(jobs.length > 0);
      const owned = { ...(await ownedBy(id as string)), jobs };
      await until('no row is left', async () => Object.keys(await leftOf(owned)).length === 0, TASKS_MS);
      await checkInvariants(service);
    } finally {
      await other.stop();
      await proxy.close();
    }
  });

  test('ends a stream of its own, and the stream of another tenant goes on', async () => {
    const client = await service.tenant({ name: 'streaming' });
    const [own, others] = [grpcClient(service.grpc, client.key), grpcClient(service.grpc, neighbour.key)];
    try {
      const [stream, neighbours] = [own.work(), others.work()];
      for (const each of [stream, neighbours]) each.send({ hello: { queues: [{ name: 'streamed' }], credits: 1 } });
      await client.post('/v1/queues/streamed/jobs', {});
      await until('it has its job', () => stream.received.length === 1);
      await service.admin.delete('/v1/admin/tenants/streaming');
      assert.equal((await stream.ended).code, 16);
      await neighbour.post('/v1/queues/streamed/jobs', {});
      await until('the neighbour has its job', () => neighbours.received.length === 1);
      neighbours.stream.cancel();
      await neighbours.ended;
    } finally {
      own.close();
      others.close();
    }
  });
});
