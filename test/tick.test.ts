import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { after, before, describe, it } from 'node:test';
import { grpcClient } from './helpers/grpc.js';
import { type Client, clientFor, startTestService, type TestService } from './helpers/service.js';

describe('the tick, with STINT_BACKGROUND=off', () => {
  let service: TestService;
  let client: Client;
  let ticker: Client;

  before(async () => {
    service = await startTestService({ STINT_BACKGROUND: 'off' });
    const { body } = await service.admin.post('/v1/admin/tenants', { name: 'sleepy' });
    const key = async (name: string, scopes: readonly string[]): Promise<Client> => {
      const made = await service.admin.post(`/v1/admin/tenants/${body.id}/keys`, { name, scopes });
      return clientFor(service.base, made.body.secret as string);
    };
    client = await key('all', ['enqueue', 'work', 'read', 'manage']);
    ticker = await key('ticker', ['tick']);
  });

  after(() => service.stop());

  const tick = async (input?: object): Promise<any> => {
    const { status, text, body } = await ticker.post('/v1/tick', input);
    assert.equal(status, 200, text);
    return body;
  };
  const counts = async (queue: string) => (await client.get(`/v1/queues/${queue}`)).body.counts;
  const databaseCalls = async (): Promise<number> => {
    const text = await (await fetch(`${service.base}/metrics`)).text();
    const lines = [...text.matchAll(/^stint_database_calls_total\{[^}]*\} (\d+)$/gm)];
    return lines.reduce((sum, [, count]) => sum + Number(count), 0);
  };

  it('asks the database nothing and holds no timer while nobody calls', async () => {
    await pause(1_000);
    const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = await databaseCalls();
    const began = timers();
    await pause(10_000);
    assert.equal(await databaseCalls(), before);
    assert.ok(timers() <= began, `${timers()} timers in place of ${began}`);
  });

  it('makes due jobs ready, once, whoever ticks and how often', async () => {
    await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 50 }, () => ({ queue: 'due', delay: '1h' })) });
    await service.sql(`update stint.scheduled set due_at = now() - interval '1 second'`);
    assert.equal((await counts('due')).scheduled, 50, 'time alone does nothing');
    const [a, b] = await Promise.all([tick(), tick()]);
    const promoted: { what: string; count: number }[] = [...a.did, ...b.did].filter(({ what }) => what === 'promoted');
    assert.equal(
      promoted.reduce((sum, { count }) => sum + count, 0),
      50,
    );
    assert.deepEqual(await counts('due'), { scheduled: 0, ready: 50, leased: 0, dead: 0 });
    const again = await tick();
    assert.deepEqual(
      again.did.filter(({ what }: any) => what === 'promoted'),
      [],
    );
    assert.deepEqual(again.failed, []);
  });

  it('gives expired leases back', async () => {
    await client.post('/v1/queues/expired/jobs', {});
    await client.post('/v1/queues/expired/lease', {});
    await service.sql(`update stint.lease set lease_expires_at = now() - interval '1 second'`);
    await tick();
    assert.equal((await counts('expired')).ready, 1);
  });

  it('says what is still due when it stops at its limit', async () => {
    await client.put('/v1/queues/heap', {});
    await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 1_000 }, () => ({ queue: 'heap' })) });
    for (let n = 0; n < 5; n += 1)
      await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 1_000 }, () => ({ queue: 'heap' })) });
    await client.delete('/v1/queues/heap?force=true');
    const first = await tick({ limit: 1 });
    assert.ok(first.stillDue.includes('delete-queues'), JSON.stringify(first));
    const rest = await tick();
    assert.deepEqual(rest.stillDue, []);
    const [{ left }] = await service.sql(
      'select count(*)::int as left from stint.job where queue_id not in (select id from stint.queue)',
    );
    assert.equal(left, 0);
  });

  it('leases without a wake-up find what another instance has enqueued', async () => {
    const other = await service.another();
    const far = clientFor(other.base, client.key);
    assert.deepEqual((await far.post('/v1/queues/far/lease', { wait: '1s' })).body.jobs, []);
    await client.post('/v1/queues/far/jobs', { payload: 'here' });
    const { body } = await far.post('/v1/queues/far/lease', { wait: '5s' });
    assert.equal(body.jobs[0].payload, 'here');
    await other.stop();
  });

  it('needs the scope tick', async () => {
    for (const stranger of [client, service.admin]) assert.equal((await stranger.post('/v1/tick')).status, 403);
    assert.equal((await ticker.get('/v1/queues')).status, 403);
  });

  it('is the same over gRPC', async () => {
    const grpc = grpcClient(service.grpc, ticker.key);
    const answer = await grpc.call('Schedules', 'Tick', { limit: 5 });
    assert.deepEqual([answer.stillDue, answer.failed], [[], []]);
    grpc.close();
  });
});
