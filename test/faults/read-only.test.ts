import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { startTestServer, type TestServer } from '../helpers/postgres-server.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

describe('a database that has become read-only under open connections (C29)', () => {
  let server: TestServer;
  let database: TestDatabase;
  let first: TestService;
  let service: TestService;
  let client: Client;

  before(async () => {
    // The setting is the whole server's, so this suite has one of its own.
    server = await startTestServer();
    database = await createDatabase(server.url);
    first = await startTestService();
    service = await first.another({ STINT_DATABASE_URL: database.url });
    client = await service.tenant();
    assert.equal((await client.post('/v1/queues/q/jobs', {})).status, 201);
  });

  after(async () => {
    await service.stop();
    await first.stop();
    await server.stop();
  });

  async function readOnly(value: 'on' | 'off'): Promise<void> {
    await query(server.url, `alter system set default_transaction_read_only = ${value}`);
    await query(server.url, 'select pg_reload_conf()');
  }

  it(
    'makes /readyz say no within 5 s and writes 503, never a success; it recovers without a restart',
    { timeout: 60_000 },
    async () => {
      assert.equal((await client.get('/readyz')).status, 200);
      await readOnly('on');
      await until('/readyz says no', async () => (await client.get('/readyz')).status === 503, 5_000);
      assert.equal((await client.get('/livez')).status, 200);
      const refused = await client.post('/v1/queues/q/jobs', {});
      assert.equal(`${refused.status} ${refused.body.code}`, '503 UNAVAILABLE');
      assert.ok(Number(refused.headers.get('retry-after')) >= 1);
      const read = await client.get('/v1/queues/q');
      assert.equal(`${read.status} ${read.body.counts.ready}`, '200 1', 'reads go on, and nothing was stored');
      const parked = client.post('/v1/queues/fresh/lease', { wait: '40s' });

      await readOnly('off');
      await until('/readyz says yes', async () => (await client.get('/readyz')).status === 200, 5_000);
      await until('enqueue works', async () => (await client.post('/v1/queues/fresh/jobs', {})).status === 201, 5_000);
      const { status, body } = await parked;
      assert.equal(`${status} ${body.jobs?.length}`, '200 1', 'who waited all along is served');
      const leased = await client.post('/v1/queues/q/lease', { wait: '5s' });
      assert.equal(leased.body.jobs.length, 1);
      assert.equal(
        (
          await clientFor(service.base, client.key).post(`/v1/jobs/${leased.body.jobs[0].id}/ack`, {
            leaseToken: leased.body.jobs[0].leaseToken,
          })
        ).status,
        200,
      );
    },
  );
});
