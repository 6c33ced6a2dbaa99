import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  at,
  enqueue,
  get,
  invalid,
  lease,
  leaseOne,
  leased,
  makeDue,
  milliseconds,
  NOT_FOUND,
  putQueue,
  runOut,
  settleOk,
} from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const several = (body: object) => client.post('/v1/lease', body);
const ids = (jobs: readonly { id: string }[]): string[] => jobs.map(({ id }) => id);

async function enqueueMany(queue: string, jobs: readonly object[]): Promise<string[]> {
  const answer = await client.post('/v1/jobs/batch', { jobs: jobs.map((job) => ({ queue, ...job })) });
  assert.equal(answer.status, 201, answer.text);
  return ids(answer.body.jobs);
}

test('a leased job carries all that its worker needs, and no more', async () => {
  const id = await enqueue(client, 'shape', { kind: 'k', payload: { a: 1 }, priority: 3, headers: { h: 'v' } });
  const [job] = await lease(client, 'shape', { worker: 'w-1' });
  const { enqueuedAt, runAt, leaseToken, leaseExpiresAt, ...rest } = job;
  assert.deepEqual(rest, {
    id,
    queue: 'shape',
    kind: 'k',
    payload: { a: 1 },
    contentType: 'application/json',
    headers: { h: 'v' },
    priority: 3,
    attempt: 1,
    maxAttempts: 5,
    leaseEpoch: 1,
    visibilityTimeout: '30s',
  });
  assert.equal(runAt, enqueuedAt);
  assert.match(leaseToken, /^[A-Za-z0-9_-]+$/);
  assert.ok(Math.abs(at(leaseExpiresAt) - Date.now() - 30_000) < 3_000, leaseExpiresAt);
  const seen = await get(client, id);
  assert.equal(seen.state, 'leased');
  assert.equal(seen.worker, 'w-1');
  assert.equal(seen.leaseExpiresAt, leaseExpiresAt);
});

test('attempt and epoch rise with each lease, and the last error comes along', async () => {
  const id = await enqueue(client, 'attempts');
  await settleOk(client, 'nack', await leaseOne(client, 'attempts'), {
    error: { message: 'no', type: 't', detail: [1] },
    delay: '0s',
  });
  const second = await leaseOne(client, 'attempts');
  assert.deepEqual([second.id, second.attempt, second.leaseEpoch], [id, 2, 2]);
  assert.deepEqual(second.lastError, { message: 'no', type: 't', detail: [1], attempt: 1 });
  await settleOk(client, 'release', second);
  const third = await leaseOne(client, 'attempts');
  assert.deepEqual([third.attempt, third.leaseEpoch], [2, 3]);
});

test('maxJobs: 1 unless given, 1 to 1,000', async () => {
  await enqueueMany(
    'many',
    Array.from({ length: 1000 }, () => ({})),
  );
  assert.equal((await lease(client, 'many')).length, 1);
  assert.equal((await lease(client, 'many', { maxJobs: 1000 })).length, 999);
  assertProblem(await client.post('/v1/queues/many/lease', { maxJobs: 1001 }), invalid('maxJobs', /1000/));
  assertProblem(await client.post('/v1/queues/many/lease', { maxJobs: 0 }), invalid('maxJobs', /1/));
});

test('the other bounds of a lease: wait 60s, visibilityTimeout 1s to 12h, worker 256', async () => {
  await enqueueMany('limits', [{}, {}, {}]);
  const post = (body: object) => client.post('/v1/queues/limits/lease', body);
  for (const good of [
    { wait: '60s' },
    { visibilityTimeout: '12h' },
    { visibilityTimeout: '1s', worker: 'w'.repeat(256) },
  ]) {
    const answer = await post(good);
    assert.equal(answer.body.jobs.length, 1, answer.text);
  }
  assertProblem(await post({ wait: '60001ms' }), invalid('wait', /60s|1m/));
  assertProblem(await post({ wait: 30 }), invalid('wait', /duration/));
  assertProblem(await post({ visibilityTimeout: '999ms' }), invalid('visibilityTimeout', /1s/));
  assertProblem(await post({ visibilityTimeout: '43200001ms' }), invalid('visibilityTimeout', /12h/));
  assertProblem(await post({ worker: 'w'.repeat(257) }), invalid('worker', /256/));
  assertProblem(await post({ max: 5 }), invalid('max', /not a known field/));
  assertProblem(await post({ queues: [] }), invalid('queues', /not a known field/));
});

test('a lease of several queues: 1 to 100 of them, weights 1 to 100, names checked', async () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => ({ name: `none-${index}` }));
  assert.deepEqual((await several({ queues: names(100) })).body, { jobs: [] });
  assertProblem(await several({ queues: names(101) }), invalid('queues', /100/));
  assertProblem(await several({ queues: [] }), invalid('queues', /1/));
  assertProblem(await several({}), invalid('queues', /required/));
  assert.equal(
    (
      await several({
        queues: [
          { name: 'a', weight: 100 },
          { name: 'b', weight: 1 },
        ],
      })
    ).status,
    200,
  );
  assertProblem(
    await several({ queues: [{ name: 'a' }, { name: 'a', weight: 101 }] }),
    invalid('queues[1].weight', /100/),
  );
  assertProblem(await several({ queues: [{ name: 'a', weight: 0 }] }), invalid('queues[0].weight', /1/));
  assertProblem(await several({ queues: [{ name: 'a b' }] }), invalid('queues[0].name'));
  assertProblem(await several({ queue: 'a' }), invalid('queue', /not a known field/));
});

test('a lease of several queues takes from all of them; a queue named twice counts once', async () => {
  await enqueueMany('multi-a', [{}, {}]);
  await enqueueMany('multi-b', [{}]);
  const answer = await several({
    queues: [{ name: 'multi-a' }, { name: 'multi-b' }, { name: 'multi-a' }],
    maxJobs: 10,
  });
  assert.deepEqual(answer.body.jobs.map(({ queue }: any) => queue).sort(), ['multi-a', 'multi-a', 'multi-b']);
});

test('weights say how often a queue comes first', async () => {
  const jobs = Array.from({ length: 200 }, () => ({}));
  await enqueueMany('heavy', jobs);
  await enqueueMany('light', jobs);
  const queues = [
    { name: 'light', weight: 1 },
    { name: 'heavy', weight: 9 },
  ];
  const answers = await Promise.all(Array.from({ length: 150 }, () => several({ queues })));
  const heavy = answers.filter(({ body }) => body.jobs[0].queue === 'heavy').length;
  // Of 150 with probability 0.9: 135, give or take 3.7; the bounds are eight of these away.
  assert.ok(heavy > 105 && heavy < 150, `${heavy} of 150 came from the queue of weight 9`);
});

test('priorities are strict, and within one the order is that of enqueueing', async () => {
  const priorities = [0, 5, -1000, 5, 0, 1000, -1];
  const made = await enqueueMany(
    'order',
    priorities.map((priority) => ({ priority })),
  );
  const expected = priorities
    .map((priority, index) => ({ priority, id: made[index]! }))
    .sort((a, b) => b.priority - a.priority);
  assert.deepEqual(ids(await lease(client, 'order', { maxJobs: 3 })), ids(expected).slice(0, 3));
  assert.deepEqual(ids(await lease(client, 'order', { maxJobs: 10 })), ids(expected).slice(3));
});

test('what comes back goes to the tail of its priority', async () => {
  const [first, second, third] = await enqueueMany('tail', [{}, {}, {}]);
  await settleOk(client, 'release', await leaseOne(client, 'tail'));
  await settleOk(client, 'nack', await leaseOne(client, 'tail'), { delay: '0s' });
  assert.deepEqual(ids(await lease(client, 'tail', { maxJobs: 3 })), [third, first, second]);
});

test('a job whose lease ran out is at the tail as well', async () => {
  const job = await leased(client, 'tail-expired');
  await runOut(service, [job.id]);
  await until('it to be ready', async () => (await get(client, job.id)).state === 'ready');
  const next = await enqueue(client, 'tail-expired');
  assert.deepEqual(ids(await lease(client, 'tail-expired', { maxJobs: 2 })), [job.id, next]);
});

test('the visibility timeout: the request’s wins over the job’s, the job’s over the queue’s', async () => {
  await putQueue(client, 'visible', { visibilityTimeout: '90s' });
  await enqueueMany('visible', [{}, { visibilityTimeout: '45s' }, { visibilityTimeout: '45s' }, {}]);
  const given: any[] = [];
  for (const more of [{}, {}, { visibilityTimeout: '20s' }, { visibilityTimeout: '20s' }])
    given.push(await leaseOne(client, 'visible', more));
  assert.deepEqual(
    given.map(({ visibilityTimeout }) => visibilityTimeout),
    ['90s', '45s', '20s', '20s'],
  );
  for (const job of given) {
    assert.ok(Math.abs(at(job.leaseExpiresAt) - Date.now() - milliseconds(job.visibilityTimeout)) < 3_000);
  }
});

test('a change of the queue’s settings holds for waiting jobs', async () => {
  await enqueue(client, 'changed');
  await putQueue(client, 'changed', { visibilityTimeout: '77s', maxAttempts: 3 });
  const job = await leaseOne(client, 'changed');
  assert.deepEqual([job.visibilityTimeout, job.maxAttempts], ['77s', 3]);
});

test('a reply stops at 3 MiB once it holds one job; what is left out is not leased', async () => {
  const payload = 'x'.repeat(250 * 1024);
  for (let index = 0; index < 4; index += 1)
    await enqueueMany(
      'fat',
      Array.from({ length: 5 }, () => ({ payload })),
    );
  const answer = await client.post('/v1/queues/fat/lease', { maxJobs: 100 });
  assert.ok(Buffer.byteLength(answer.text) <= 3 * 1024 * 1024, `${Buffer.byteLength(answer.text)} bytes`);
  assert.equal(answer.body.jobs.length, 12);
  const stats = await client.get('/v1/queues/fat/stats');
  assert.deepEqual([stats.body.counts.leased, stats.body.counts.ready], [12, 8]);
  assert.equal((await lease(client, 'fat', { maxJobs: 100 })).length, 8);
});

test('an unknown queue waits like an empty one and is not created', async () => {
  const started = performance.now();
  assert.deepEqual(await lease(client, 'unknown'), []);
  assert.deepEqual(await lease(client, 'unknown', { wait: '300ms' }), []);
  assert.ok(performance.now() - started >= 295);
  assertProblem(await client.get('/v1/queues/unknown'), NOT_FOUND);
  const waiting = lease(client, 'unknown', { wait: '20s' });
  const id = await enqueue(client, 'unknown');
  assert.deepEqual(ids(await waiting), [id]);
});

test('with autoCreateQueues false a lease of an unknown queue is 404', async () => {
  const strict = await service.tenant({ autoCreateQueues: false });
  assertProblem(await strict.post('/v1/queues/none/lease', { wait: '10s' }), NOT_FOUND);
  await putQueue(strict, 'some');
  assertProblem(await strict.post('/v1/lease', { queues: [{ name: 'some' }, { name: 'none' }] }), NOT_FOUND);
  assert.deepEqual(await lease(strict, 'some'), []);
});

test('an empty queue is waited for as long as asked, and no longer', async () => {
  const started = performance.now();
  assert.deepEqual(await lease(client, 'empty', { wait: '700ms' }), []);
  const took = performance.now() - started;
  assert.ok(took >= 695 && took < 2_000, `${took} ms`);
});

test('a waiting lease answers with what comes, without filling up to maxJobs', async () => {
  const waiting = lease(client, 'not-full', { wait: '20s', maxJobs: 10 });
  const id = await enqueue(client, 'not-full');
  assert.deepEqual(ids(await waiting), [id]);
});

test('one job wakes one of many who wait; the others go on waiting', async () => {
  const waiting = Array.from({ length: 5 }, () => lease(client, 'one-of-many', { wait: '1500ms' }));
  await enqueue(client, 'one-of-many');
  const got = (await Promise.all(waiting)).map(({ length }) => length).sort();
  assert.deepEqual(got, [0, 0, 0, 0, 1]);
});

test('a paused queue gives nothing, not even to those who wait; resumed, it does', async () => {
  const id = await enqueue(client, 'paused');
  assert.equal((await client.post('/v1/queues/paused/pause')).status, 200);
  assert.deepEqual(await lease(client, 'paused', { wait: '300ms' }), []);
  const waiting = lease(client, 'paused', { wait: '20s' });
  assert.equal((await client.post('/v1/queues/paused/resume')).status, 200);
  assert.deepEqual(ids(await waiting), [id]);
});

test('lease needs the scope work', async () => {
  const reader = await service.tenant({ scopes: ['enqueue', 'read', 'manage'] });
  assertProblem(await reader.post('/v1/queues/q/lease'), { status: 403, code: 'PERMISSION_DENIED' });
  assertProblem(await reader.post('/v1/lease', { queues: [{ name: 'q' }] }), {
    status: 403,
    code: 'PERMISSION_DENIED',
  });
});

test('with settle the outcomes come back as settled, and the settles are done before the lease', async () => {
  const [first, second] = await enqueueMany('loop', [{}, {}]);
  const job = await leaseOne(client, 'loop');
  const answer = await client.post('/v1/queues/loop/lease', {
    settle: { acks: [{ leaseToken: job.leaseToken, result: 'r' }] },
  });
  assert.deepEqual(answer.body.settled, { heartbeats: [], acks: [{ outcome: 'OK' }], nacks: [], releases: [] });
  assert.deepEqual(ids(answer.body.jobs), [second]);
  const done = await get(client, first!);
  assert.deepEqual([done.state, done.result], ['completed', 'r']);
});

test('a job released in settle can be leased in the same call', async () => {
  const job = await leased(client, 'again');
  const answer = await client.post('/v1/queues/again/lease', {
    wait: '5s',
    settle: { releases: [{ leaseToken: job.leaseToken }] },
  });
  assert.deepEqual(ids(answer.body.jobs), [job.id]);
  assert.notEqual(answer.body.jobs[0].leaseToken, job.leaseToken);
});

test('if not all settles are OK the call answers without parking, with what is ready', async () => {
  const job = await leased(client, 'not-ok');
  await settleOk(client, 'ack', job);
  const started = performance.now();
  const settle = { acks: [{ leaseToken: job.leaseToken }] };
  const empty = await client.post('/v1/queues/not-ok/lease', { wait: '10s', settle });
  assert.deepEqual([empty.body.jobs, empty.body.settled.acks], [[], [{ outcome: 'ALREADY_SETTLED' }]]);
  await enqueue(client, 'not-ok');
  const full = await client.post('/v1/queues/not-ok/lease', {
    wait: '10s',
    settle: { ...settle, nacks: [{ leaseToken: 'nonsense' }] },
  });
  assert.equal(full.body.jobs.length, 1);
  assert.equal(full.body.settled.nacks[0].outcome, 'INVALID');
  assert.ok(performance.now() - started < 5_000);
});

test('with settles that are all OK the call parks', async () => {
  const job = await leased(client, 'parks');
  const waiting = client.post('/v1/queues/parks/lease', {
    wait: '20s',
    settle: { acks: [{ leaseToken: job.leaseToken }] },
  });
  await until('the ack to be done', async () => (await get(client, job.id)).state === 'completed');
  const id = await enqueue(client, 'parks');
  assert.deepEqual(ids((await waiting).body.jobs), [id]);
});

test('the settles of a lease that is refused are not carried out', async () => {
  const job = await leased(client, 'refused');
  assertProblem(
    await client.post('/v1/queues/refused/lease', { maxJobs: 0, settle: { acks: [{ leaseToken: job.leaseToken }] } }),
    invalid('maxJobs'),
  );
  assertProblem(
    await client.post('/v1/queues/refused/lease', { settle: { ack: [] } }),
    invalid('settle.ack', /not a known field/),
  );
  assert.equal((await get(client, job.id)).state, 'leased');
});

test('a job that is due later is not leased before', async () => {
  const made = await client.post('/v1/queues/due/jobs', { delay: '400ms' });
  assert.deepEqual(await lease(client, 'due'), []);
  const job = await leaseOne(client, 'due');
  assert.ok(at(job.leaseExpiresAt) - milliseconds(job.visibilityTimeout) >= at(made.body.runAt));
  assert.equal(job.runAt, made.body.runAt);
});

test('jobs that become due are leased in the order of their instants', async () => {
  const made = await enqueueMany('due-order', [{ delay: '3h' }, { delay: '1h' }, { delay: '2h' }]);
  await service.sql(`update stint.scheduled set due_at = due_at - interval '4 hours' where job_id = any($1::uuid[])`, [
    made,
  ]);
  await until('all to be ready', async () => (await client.get('/v1/queues/due-order/stats')).body.counts.ready === 3);
  assert.deepEqual(ids(await lease(client, 'due-order', { maxJobs: 3 })), [made[1], made[2], made[0]]);
});

test('two instances never lease the same job', async () => {
  const made = await enqueueMany(
    'shared',
    Array.from({ length: 300 }, () => ({})),
  );
  const other = await service.another();
  try {
    const clients = [client, clientFor(other.base, client.key)];
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) => lease(clients[index % 2]!, 'shared', { maxJobs: 7 })),
    );
    const got = answers.flatMap(ids);
    assert.equal(new Set(got).size, got.length);
    const rest = await lease(client, 'shared', { maxJobs: 1000 });
    assert.deepEqual([...got, ...ids(rest)].sort(), [...made].sort());
  } finally {
    await other.stop();
  }
});

test('a scheduled job that is made due by hand is promoted within its regular turn', async () => {
  const id = await enqueue(client, 'by-hand', { delay: '1h' });
  await makeDue(service, [id]);
  assert.equal((await leaseOne(client, 'by-hand')).id, id);
});
