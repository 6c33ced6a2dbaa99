import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, enqueue, invalid, lease, putQueue } from '../contract/jobs.js';

let service: TestService;
let other: TestService;
let client: Client;
let clients: readonly [Client, Client];

before(async () => {
  service = await startTestService();
  other = await service.another();
  client = await service.tenant();
  clients = [client, clientFor(other.base, client.key)];
});
after(async () => {
  await other.stop();
  await service.stop();
});

const REUSED = { status: 409, code: 'IDEMPOTENCY_KEY_REUSED' };
const post = (as: Client, queue: string, fields: object): Promise<Answer> =>
  as.post(`/v1/queues/${queue}/jobs`, fields);

/** A transaction that holds a key of the queue, as an enqueue under way would; `end` rolls it back. */
async function holdKey(queue: string, key: string) {
  await putQueue(client, queue);
  const holder = new pg.Client({ connectionString: service.database.url });
  await holder.connect();
  await holder.query('begin');
  await holder.query(
    `insert into stint.idempotency (queue_id, key, job_id, fingerprint, expires_at)
     select id, $2, gen_random_uuid(), '\\x00', now() + interval '1 day' from stint.queue where name = $1`,
    [queue, key],
  );
  return {
    end: async () => {
      await holder.query('rollback');
      await holder.end();
    },
  };
}

/** The backends that wait for a lock, once there are that many. */
function waitingBackends(count: number): Promise<number[]> {
  return until(`${count} waiting`, async () => {
    const rows = await service.sql(
      `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    return rows.length >= count ? rows.map(({ pid }: { pid: number }) => pid) : undefined;
  }) as Promise<number[]>;
}

async function jobsOf(queue: string): Promise<string[]> {
  return (await lease(client, queue, { maxJobs: 100 })).map(({ id }) => id);
}

test('C43: when the first with a key rolls back, exactly one of the others makes the job and all are given its id', async () => {
  const held = await holdKey('c43', 'k');
  const sent = Array.from({ length: 20 }, (_, index) =>
    post(clients[index % 2]!, 'c43', { idempotencyKey: 'k', payload: 1 }),
  );
  await waitingBackends(2);
  await held.end();
  const answers = await Promise.all(sent);
  const ids = new Set(answers.map(({ body }) => body.id));
  assert.equal(ids.size, 1);
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(19).fill(200), 201]);
  assert.deepEqual(await jobsOf('c43'), [...ids]);
});

test('C43: when the backends of those who wait are killed, nobody is told of a job that is not there', async () => {
  const held = await holdKey('c43-killed', 'k');
  const sent = Array.from({ length: 20 }, (_, index) =>
    post(clients[index % 2]!, 'c43-killed', { idempotencyKey: 'k', payload: 1 }),
  );
  const pids = await waitingBackends(2);
  await service.sql('select pg_terminate_backend(pid) from unnest($1::int[]) as pid', [pids]);
  await held.end();
  const answers = await Promise.all(sent);
  const told = answers.filter(({ status }) => status === 200 || status === 201);
  for (const answer of answers) if (!told.includes(answer)) assertProblem(answer, { status: 503, code: 'UNAVAILABLE' });
  const again = await post(client, 'c43-killed', { idempotencyKey: 'k', payload: 1 });
  assert.ok(again.status === 200 || again.status === 201, again.text);
  for (const { body } of told) assert.equal(body.id, again.body.id);
  assert.deepEqual(await jobsOf('c43-killed'), [again.body.id]);
});

test('C45: of two payloads under one key at once, exactly one is taken and the other is told so', async () => {
  for (let round = 0; round < 15; round += 1) {
    const queue = `c45-${round % 3}`;
    const idempotencyKey = `k${round}`;
    const answers = await Promise.all(
      [1, 2, 1, 2].map((payload, index) =>
        post(clients[index % 2 === round % 2 ? 0 : 1], queue, { idempotencyKey, payload }),
      ),
    );
    const made = answers.filter(({ status }) => status === 201);
    assert.equal(made.length, 1);
    const refused = answers.filter(({ status }) => status === 409);
    assert.equal(refused.length, 2);
    for (const answer of refused) assertProblem(answer, REUSED);
    const repeated = answers.find(({ status }) => status === 200);
    assert.equal(repeated?.body.id, made[0]?.body.id);
  }
  for (const queue of [0, 1, 2]) assert.equal((await jobsOf(`c45-${queue}`)).length, 5);
});

test('C45: a batch and a single enqueue share the keys of a queue; another queue and another tenant do not', async () => {
  const stranger = await service.tenant();
  const first = await post(client, 'c45-scope', { idempotencyKey: 'k', payload: 1 });
  const batch = await client.post('/v1/jobs/batch', {
    jobs: [{ queue: 'c45-scope', idempotencyKey: 'k', payload: 1 }],
  });
  assert.deepEqual([batch.status, batch.body.jobs[0].id], [200, first.body.id]);
  for (const answer of [
    await post(client, 'c45-scope-2', { idempotencyKey: 'k', payload: 2 }),
    await post(stranger, 'c45-scope', { idempotencyKey: 'k', payload: 3 }),
  ]) {
    assert.equal(answer.status, 201);
  }
});

test('C45: keys of 1 to 255 bytes are taken and told apart to the last byte; others are refused', async () => {
  const long = 'x'.repeat(254);
  for (const idempotencyKey of ['a', `${long}a`, `${long}b`, 'ключ', 'A']) {
    assert.equal((await post(client, 'c45-length', { idempotencyKey })).status, 201);
  }
  for (const idempotencyKey of ['', 'x'.repeat(256), 'x'.repeat(10_000), 'ю'.repeat(128)]) {
    assertProblem(await post(client, 'c45-length', { idempotencyKey }), invalid('idempotencyKey', /255 bytes/));
  }
});

test('C45: a call that meets one in flight waits for its end', async () => {
  const held = await holdKey('c45-flight', 'k');
  const sent = post(client, 'c45-flight', { idempotencyKey: 'k' });
  await waitingBackends(1);
  await enqueue(client, 'c45-flight-2');
  await held.end();
  assert.equal((await sent).status, 201);
});

test('C45: what is refused does not burn the key, and a key whose window is over is free', async () => {
  assertProblem(await post(client, 'c45-burn', { idempotencyKey: 'k', maxAttempts: 0 }), invalid('maxAttempts'));
  const first = await post(client, 'c45-burn', { idempotencyKey: 'k', payload: 1 });
  assert.equal(first.status, 201);
  assert.equal((await client.post(`/v1/jobs/${first.body.id}/cancel`)).status, 200);
  await service.sql(`update stint.idempotency set expires_at = now() - interval '1 s' where job_id = $1`, [
    first.body.id,
  ]);
  const next = await post(client, 'c45-burn', { idempotencyKey: 'k', payload: 2 });
  assert.equal(next.status, 201);
  assert.notEqual(next.body.id, first.body.id);
});
