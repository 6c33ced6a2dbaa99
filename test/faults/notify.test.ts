import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { checkInvariants } from '../helpers/invariants.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

/** Below this NOTIFY takes a payload. */
const NOTIFY_BYTES = 8_000;

describe('NOTIFY', () => {
  let service: TestService;
  let other: TestService;
  let client: Client;
  let listener: pg.Client;
  const heard: string[] = [];

  before(async () => {
    service = await startTestService();
    other = await service.another();
    client = await service.tenant();
    listener = new pg.Client({ connectionString: service.database.url });
    listener.on('notification', ({ payload }) => heard.push(payload!));
    await listener.connect();
    await listener.query('listen stint');
  });

  after(async () => {
    await listener.end();
    await other.stop();
    await service.stop();
  });

  it('is sent once for many enqueues, not once for each (C57)', async () => {
    const queues = Array.from({ length: 10 }, (_, n) => `coalesced-${n}`);
    for (const queue of queues) await client.put(`/v1/queues/${queue}`, {});
    heard.length = 0;
    const enqueues = 600;
    const began = performance.now();
    const answers = await Promise.all(
      Array.from({ length: enqueues }, (_, n) => client.post(`/v1/queues/${queues[n % 10]}/jobs`, {})),
    );
    const took = performance.now() - began;
    for (const { status } of answers) assert.equal(status, 201);
    const ids = new Set(await queueIds('coalesced-'));
    await until('the last of them is heard', () => heard.length > 0 && ids.size === heardQueues(ids).size);
    assert.ok(heard.length < enqueues / 2, `${heard.length} for ${enqueues} enqueues`);
    // The rule is a time: one in 5 ms at most, however fast the enqueues come.
    assert.ok(heard.length <= took / 5 + 2, `${heard.length} in ${took} ms`);
  });

  it('never outgrows what Postgres takes: 5,000 jobs over 1,000 queues of long ids are stored, and heard of (C59)', async () => {
    await service.sql('alter sequence stint.queue_id_seq restart with 2000000000');
    heard.length = 0;
    const worker = clientFor(other.base, client.key);
    const names = Array.from({ length: 1_000 }, (_, n) => `long-${String(n).padStart(70, '0')}`);
    const parked = worker.post(`/v1/queues/${names[999]}/lease`, { wait: '30s' });
    const batches = Array.from({ length: 5 }, () =>
      client.post('/v1/jobs/batch', { jobs: names.map((queue) => ({ queue, payload: 'x'.repeat(100) })) }),
    );
    for (const answer of await Promise.all(batches)) assert.equal(answer.status, 201, answer.text.slice(0, 500));
    assert.equal((await parked).body.jobs.length, 1);
    await until('something is heard', () => heard.some((message) => message.includes('all')));
    for (const message of heard) assert.ok(Buffer.byteLength(message) < NOTIFY_BYTES);
    const { body } = await client.get(`/v1/queues/${names[500]}`);
    assert.equal(body.counts.ready, 5);
    await checkInvariants(service);
  });

  it('does not hold up enqueues when a listener is stuck in a transaction', async () => {
    await listener.query('begin');
    try {
      const answers = await Promise.all(Array.from({ length: 100 }, () => client.post('/v1/queues/stuck/jobs', {})));
      for (const { status } of answers) assert.equal(status, 201);
    } finally {
      await listener.query('rollback');
    }
  });

  async function queueIds(prefix: string): Promise<string[]> {
    const rows = await service.sql(`select id from stint.queue where starts_with(name, $1)`, [prefix]);
    return rows.map(({ id }) => String(id));
  }

  function heardQueues(ids: ReadonlySet<string>): Set<string> {
    const named = heard.flatMap((message) => message.split(' ')[1]!.split(','));
    return new Set(named.filter((id) => ids.has(id)));
  }
});
