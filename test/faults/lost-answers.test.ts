import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { checkInvariants } from '../helpers/invariants.js';
import { type Proxy, type ProxyLink, startProxy } from '../helpers/proxy.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

interface Fault {
  happened(): boolean;
}

/** Callers of a claim that was lost wait that long at most, never their whole `wait`. */
const SOON_MS = 8_000;

describe('an answer of Postgres that never arrives', () => {
  let service: TestService;
  let through: TestService;
  let proxy: Proxy;
  let client: Client;
  let queues = 0;

  before(async () => {
    service = await startTestService();
    proxy = await startProxy(service.database.url);
    through = await service.another({ STINT_DATABASE_URL: proxy.url });
    const { key } = await service.tenant();
    client = clientFor(through.base, key);
  });

  afterEach(async () => {
    proxy.rules.toServer = proxy.rules.toClient = undefined;
    await checkInvariants(service);
  });

  after(async () => {
    await through.stop();
    await proxy.close();
    await service.stop();
  });

  /** Cuts, once, the connection on which that prepared statement was asked for, when its answer comes: it has been carried out. */
  function loseAnswer(statement: string): Fault {
    let asked: ProxyLink | undefined;
    let lost = false;
    proxy.rules.toServer = (chunk, link) => {
      if (asked === undefined && binds(chunk, statement)) asked = link;
      return 'pass';
    };
    proxy.rules.toClient = (_, link) => {
      if (link !== asked || lost) return 'pass';
      lost = true;
      return 'cut';
    };
    return { happened: () => lost };
  }

  /** Cuts it as soon as the statement has been sent; Postgres reads what it was sent and may commit later. */
  function cutOnceSent(statement: string): Fault {
    let asked: ProxyLink | undefined;
    proxy.rules.toServer = (chunk, link) => {
      if (asked !== undefined || !binds(chunk, statement)) return 'pass';
      asked = link;
      return 'pass-then-cut';
    };
    return { happened: () => asked !== undefined };
  }

  const freshQueue = (): string => `lost-${(queues += 1)}`;

  for (const [way, lose] of [
    ['its answer', loseAnswer],
    ['its connection under way', cutOnceSent],
  ] as const) {
    it(`a claim that loses ${way} leases no job twice and strands none: its callers get them within seconds`, async () => {
      const queue = freshQueue();
      const jobs = Array.from({ length: 20 }, (_, n) => ({ queue, payload: n }));
      const enqueued = await client.post('/v1/jobs/batch', { jobs });
      const fault = lose('claim');
      const began = performance.now();
      const leases = await Promise.all(
        Array.from({ length: 4 }, () =>
          client.post(`/v1/queues/${queue}/lease`, { maxJobs: 5, wait: '30s', visibilityTimeout: '10m' }),
        ),
      );
      const took = performance.now() - began;
      assert.ok(fault.happened());
      assert.ok(took < SOON_MS, `took ${took} ms`);
      const got = await everyJob(
        queue,
        leases.flatMap(({ body }) => body.jobs),
      );
      const ids = got.map(({ id }) => id).sort();
      assert.deepEqual(ids, enqueued.body.jobs.map(({ id }: { id: string }) => id).sort());
      for (const { attempt } of got) assert.equal(attempt, 1, 'a claim nobody heard of spends no attempt');
    });

    it(`an enqueue that loses ${way} makes each job once`, async () => {
      const queue = freshQueue();
      await client.put(`/v1/queues/${queue}`, {});
      const fault = lose('enqueue');
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, n) => client.post(`/v1/queues/${queue}/jobs`, { payload: n })),
      );
      assert.ok(fault.happened());
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
      const stored = await service.sql(
        `select r.job_id as id from stint.ready r join stint.queue q on q.id = r.queue_id where q.name = $1 order by 1`,
        [queue],
      );
      assert.deepEqual(
        stored.map(({ id }) => id),
        answers.map(({ body }) => body.id).sort(),
      );
    });

    it(`an enqueue under a key that loses ${way} makes one job, and its caller is told that it is new`, async () => {
      const queue = freshQueue();
      await client.put(`/v1/queues/${queue}`, {});
      const fault = lose('commit');
      const first = await client.post(`/v1/queues/${queue}/jobs`, { payload: 1, idempotencyKey: 'once' });
      assert.ok(fault.happened());
      assert.equal(`${first.status} ${first.body.deduplicated}`, '201 false', first.text);
      const again = await client.post(`/v1/queues/${queue}/jobs`, { payload: 1, idempotencyKey: 'once' });
      assert.equal(`${again.status} ${again.body.id}`, `200 ${first.body.id}`);
    });

    it(`a batch with and without keys that loses ${way} makes each of its jobs once, repeated keys told apart`, async () => {
      const queue = freshQueue();
      await client.post(`/v1/queues/${queue}/jobs`, { idempotencyKey: 'earlier' });
      const fault = lose('commit');
      const jobs = [
        { queue },
        { queue, idempotencyKey: 'earlier' },
        { queue, idempotencyKey: 'new' },
        { queue, delay: '1h' },
        { queue, idempotencyKey: 'new' },
      ];
      const { status, body, text } = await client.post('/v1/jobs/batch', { jobs });
      assert.ok(fault.happened());
      assert.equal(status, 201, text);
      const told = body.jobs.map(({ deduplicated }: { deduplicated: boolean }) => deduplicated);
      assert.deepEqual(told, [false, true, false, false, true]);
      assert.equal(body.jobs[4].id, body.jobs[2].id);
      const { counts } = (await client.get(`/v1/queues/${queue}`)).body;
      assert.deepEqual(counts, { scheduled: 1, ready: 3, leased: 0, dead: 0 });
    });

    it(`a settle that loses ${way} settles once, and its caller is told of a success`, async () => {
      const queue = freshQueue();
      await client.post('/v1/jobs/batch', { jobs: Array.from({ length: 6 }, () => ({ queue })) });
      const { body } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: 6, visibilityTimeout: '10m' });
      const tokens: string[] = body.jobs.map(({ leaseToken }: { leaseToken: string }) => leaseToken);
      for (const [index, verb] of ['ack', 'nack', 'release'].entries()) {
        const fault = lose(verb === 'ack' ? 'ack' : 'hand-back');
        const items = tokens.slice(index * 2, index * 2 + 2).map((leaseToken) => ({ leaseToken }));
        const answer = await client.post(`/v1/leases/${verb}`, { items });
        assert.ok(fault.happened());
        assert.equal(answer.status, 200, answer.text);
        for (const { outcome } of answer.body.results)
          assert.ok(['OK', 'ALREADY_SETTLED'].includes(outcome), `${verb}: ${outcome}`);
      }
      const { counts } = (await client.get(`/v1/queues/${queue}`)).body;
      assert.deepEqual(counts, { scheduled: 2, ready: 2, leased: 0, dead: 0 });
    });
  }

  /** The rest is leased again as soon as it is back. */
  async function everyJob(queue: string, first: any[]): Promise<any[]> {
    const got = [...first];
    await until('every job is leased once', async () => {
      const { body } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: 20, visibilityTimeout: '10m' });
      got.push(...body.jobs);
      return got.length >= 20;
    });
    return got;
  }
});

/** Whether the bytes hold a Bind of that statement (unnamed portal, then the statement's name, both ended by a zero). */
function binds(chunk: Buffer, statement: string): boolean {
  return chunk.includes(`\0${statement}\0`, 0, 'latin1');
}
