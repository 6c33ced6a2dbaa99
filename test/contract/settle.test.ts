import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  enqueue,
  get,
  invalid,
  lease,
  LEASE_LOST,
  leased,
  leaseOne,
  NOT_FOUND,
  rawMember,
  runOut,
  settle,
  settleOk,
  UNKNOWN_ID,
  type Verb,
} from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const VERBS: readonly Verb[] = ['heartbeat', 'ack', 'nack', 'release'];
const many = (verb: Verb, items: readonly unknown[]) => client.post(`/v1/leases/${verb}`, { items });
const mixed = (lists: object) => client.post('/v1/leases/settle', lists);
const token = (job: any) => ({ leaseToken: job.leaseToken as string });
const outcomes = (results: any[]): string[] => results.map(({ outcome }) => outcome);

async function leasedMany(queue: string, count: number): Promise<any[]> {
  const jobs = Array.from({ length: count }, (_, payload) => ({ queue, payload }));
  assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
  return lease(client, queue, { maxJobs: count });
}

/** A token as the service makes it, for something that is not there. */
function tokenOf(job: any, change: (bytes: Buffer) => void): string {
  const bytes = Buffer.from(job.leaseToken, 'base64url');
  change(bytes);
  return bytes.toString('base64url');
}

test('an ack completes the job and answers 200 with the outcome alone', async () => {
  const job = await leased(client, 'ack');
  const answer = await settle(client, 'ack', job);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, { outcome: 'OK' });
  const done = await get(client, job.id);
  assert.equal(done.state, 'completed');
  assert.equal(typeof done.finishedAt, 'string');
  assert.deepEqual(
    done.attempts.map(({ attempt, epoch, outcome }: any) => ({ attempt, epoch, outcome })),
    [{ attempt: 1, epoch: 1, outcome: 'ACKED' }],
  );
});

test('the same verb again is ALREADY_SETTLED with 200, for ack, nack and release', async () => {
  for (const verb of ['ack', 'nack', 'release'] as const) {
    const job = await leased(client, `twice-${verb}`);
    const more = verb === 'ack' ? {} : { delay: '1h' };
    await settleOk(client, verb, job, more);
    const again = await settle(client, verb, job, more);
    assert.equal(again.status, 200, verb);
    assert.deepEqual(again.body, { outcome: 'ALREADY_SETTLED' });
  }
});

test('a nack by a retried call is known although the job was leased again since; a release then is LEASE_LOST', async () => {
  const nacked = await leased(client, 'nack-known');
  await settleOk(client, 'nack', nacked, { delay: '0s' });
  await leaseOne(client, 'nack-known');
  assert.equal((await settle(client, 'nack', nacked)).body.outcome, 'ALREADY_SETTLED');
  const released = await leased(client, 'release-lost');
  await settleOk(client, 'release', released);
  await leaseOne(client, 'release-lost');
  assertProblem(await settle(client, 'release', released), LEASE_LOST);
});

test('another verb is LEASE_LOST with 409 and says how the lease was settled', async () => {
  const pairs = { ack: 'ACKED', nack: 'NACKED', release: 'RELEASED' } as const;
  for (const [first, settledAs] of Object.entries(pairs)) {
    const job = await leased(client, `other-${first}`);
    await settleOk(client, first as Verb, job, first === 'ack' ? {} : { delay: '1h' });
    for (const verb of VERBS) {
      if (verb === first) continue;
      const answer = await settle(client, verb, job);
      assertProblem(answer, LEASE_LOST);
      assert.equal(answer.body.settledAs, settledAs, `${verb} after ${first}`);
    }
  }
});

test('a single call about a job that is not there is 404', async () => {
  const job = await leased(client, 'not-there');
  const leaseToken = tokenOf(job, (bytes) => void bytes.write(UNKNOWN_ID.replaceAll('-', ''), 5, 'hex'));
  for (const verb of VERBS) assertProblem(await settle(client, verb, { id: UNKNOWN_ID, leaseToken }), NOT_FOUND);
});

test('a forged lease id, a forged epoch and another queue’s id in a token settle nothing', async () => {
  const job = await leased(client, 'forged');
  const forged = [
    tokenOf(job, (bytes) => bytes.writeBigInt64BE(bytes.readBigInt64BE(25) ^ 1n, 25)),
    tokenOf(job, (bytes) => bytes.writeUInt32BE(2_000_000_000, 1)),
  ];
  for (const verb of VERBS) {
    assertProblem(await settle(client, verb, { id: job.id, leaseToken: forged[0]! }), LEASE_LOST);
    assertProblem(await settle(client, verb, { id: job.id, leaseToken: forged[1]! }), NOT_FOUND);
  }
  assert.equal((await get(client, job.id)).state, 'leased');
});

test('what is no token at all, a missing one, or one of another job is 400 and named', async () => {
  const job = await leased(client, 'no-token');
  for (const verb of VERBS) {
    for (const leaseToken of ['', 'x', 'A'.repeat(44), 'ü'.repeat(44), `${job.leaseToken}A`, 'x'.repeat(257)]) {
      assertProblem(await settle(client, verb, { id: job.id, leaseToken }), invalid('leaseToken'));
    }
    assertProblem(await client.post(`/v1/jobs/${job.id}/${verb}`, {}), invalid('leaseToken', /required/));
    assertProblem(await settle(client, verb, { ...job, id: UNKNOWN_ID }), invalid('leaseToken', /another job/));
    assertProblem(await settle(client, verb, { ...job, id: 'no-uuid' }), invalid('id', /UUID/));
    assertProblem(await settle(client, verb, job, { colour: 1 }), invalid('colour', /not a known field/));
  }
});

test('the job’s id in a path may be in upper case', async () => {
  const job = await leased(client, 'upper');
  await settleOk(client, 'heartbeat', { ...job, id: job.id.toUpperCase() });
  await settleOk(client, 'ack', { ...job, id: job.id.toUpperCase() });
});

test('a batch answers 200 in request order, whatever becomes of its items', async () => {
  const [a, b, c] = await leasedMany('order', 3);
  await settleOk(client, 'release', b, { delay: '1h' });
  const missing = tokenOf(a, (bytes) => void bytes.write(UNKNOWN_ID.replaceAll('-', ''), 5, 'hex'));
  const answer = await many('ack', [
    token(c),
    { leaseToken: 'bad' },
    token(b),
    token(a),
    { leaseToken: missing },
    token(a),
  ]);
  assert.equal(answer.status, 200);
  assert.deepEqual(outcomes(answer.body.results), [
    'OK',
    'INVALID',
    'LEASE_LOST',
    'OK',
    'NOT_FOUND',
    'ALREADY_SETTLED',
  ]);
  assert.deepEqual(answer.body.results[2], { outcome: 'LEASE_LOST', settledAs: 'RELEASED' });
});

const badItems: Record<Verb, [object, string][]> = {
  heartbeat: [
    [{ visibilityTimeout: '999ms' }, 'visibilityTimeout'],
    [{ progress: 'x'.repeat(4095) }, 'progress'],
    [{ visibilityTimeout: 5 }, 'visibilityTimeout'],
  ],
  ack: [[{ unknown: 1 }, 'unknown']],
  nack: [
    [{ delay: '367d' }, 'delay'],
    [{ final: 'yes' }, 'final'],
    [{ delay: '-1s' }, 'delay'],
  ],
  release: [[{ delay: '367d' }, 'delay']],
};

for (const verb of VERBS) {
  test(`in a batch of ${verb}s one bad item is INVALID with its field, and its neighbours are OK`, async () => {
    const faults = badItems[verb];
    const jobs = await leasedMany(`bad-${verb}`, faults.length + 2);
    const items = jobs.map((job, index) => ({ ...token(job), ...(faults[index - 1]?.[0] ?? {}) }));
    const { results } = (await many(verb, [...items, {}, 5, { leaseToken: null }])).body;
    for (const [index, { outcome, error }] of results.slice(0, jobs.length).entries()) {
      const field = faults[index - 1]?.[1];
      assert.equal(outcome, field === undefined ? 'OK' : 'INVALID', JSON.stringify(error));
      if (field !== undefined) assert.equal(error.field, field);
    }
    assert.deepEqual(outcomes(results.slice(jobs.length)), ['INVALID', 'INVALID', 'INVALID']);
    for (const { error } of results.slice(jobs.length)) assert.equal(typeof error.message, 'string');
  });
}

test('a batch holds 1 to 1,000 items; the mixed call 1,000 in all', async () => {
  const bad = { leaseToken: 'x' };
  const items = (count: number) => Array.from({ length: count }, () => bad);
  for (const verb of VERBS) {
    assert.equal((await many(verb, items(1000))).body.results.length, 1000);
    assertProblem(await many(verb, items(1001)), invalid('items', /1000/));
    assertProblem(await many(verb, []), invalid('items', /1/));
    assertProblem(await client.post(`/v1/leases/${verb}`, {}), invalid('items', /required/));
    assertProblem(await client.post(`/v1/leases/${verb}`, { items: items(1), more: 1 }), invalid('more'));
  }
  assert.equal((await mixed({ acks: items(500), nacks: items(500) })).status, 200);
  assert.equal((await mixed({ acks: items(500), nacks: items(501) })).status, 400);
  assertProblem(await mixed({ acks: items(1001) }), invalid('acks', /1000/));
});

test('a mixed call answers four lists, each in its order; none given answers four empty ones', async () => {
  const [a, b, c, d, e] = await leasedMany('mixed', 5);
  const answer = await mixed({
    acks: [token(a), token(b)],
    nacks: [{ ...token(c), delay: '1h' }],
    releases: [{ leaseToken: 'bad' }, { ...token(d), delay: '1h' }],
    heartbeats: [token(e)],
  });
  assert.deepEqual(outcomes(answer.body.acks), ['OK', 'OK']);
  assert.deepEqual(outcomes(answer.body.nacks), ['OK']);
  assert.deepEqual(outcomes(answer.body.releases), ['INVALID', 'OK']);
  assert.deepEqual(outcomes(answer.body.heartbeats), ['OK']);
  assert.deepEqual((await mixed({})).body, { heartbeats: [], acks: [], nacks: [], releases: [] });
});

test('items for one lease are taken heartbeats, acks, nacks, releases: the first wins', async () => {
  const job = await leased(client, 'precedence');
  const item = token(job);
  const { body } = await mixed({ releases: [item], nacks: [item, item], acks: [item, item], heartbeats: [item, item] });
  assert.deepEqual(outcomes(body.heartbeats), ['OK', 'OK']);
  assert.deepEqual(outcomes(body.acks), ['OK', 'ALREADY_SETTLED']);
  assert.deepEqual(body.nacks, [
    { outcome: 'LEASE_LOST', settledAs: 'ACKED' },
    { outcome: 'LEASE_LOST', settledAs: 'ACKED' },
  ]);
  assert.deepEqual(body.releases, [{ outcome: 'LEASE_LOST', settledAs: 'ACKED' }]);
  assert.equal((await get(client, job.id)).state, 'completed');
});

test('a nack wins over a release of the same lease in one call', async () => {
  const job = await leased(client, 'nack-first');
  const { body } = await mixed({ releases: [token(job)], nacks: [{ ...token(job), delay: '1h' }] });
  assert.deepEqual(outcomes(body.nacks), ['OK']);
  assert.deepEqual(body.releases, [{ outcome: 'LEASE_LOST', settledAs: 'NACKED' }]);
});

test('a result and a progress come back to the byte', async () => {
  const value = '{"b":1.0,"a":9007199254740993,"b":1e400,"z":"\\u0000\\ud800"}';
  const job = await leased(client, 'to-the-byte');
  await client.post(`/v1/jobs/${job.id}/heartbeat`, `{"leaseToken":"${job.leaseToken}","progress":${value}}`);
  const running = await client.get(`/v1/jobs/${job.id}`);
  assert.equal(rawMember(running.text, 'progress', value.length), value);
  await client.post(`/v1/jobs/${job.id}/ack`, `{"leaseToken":"${job.leaseToken}","result":${value}}`);
  const done = await client.get(`/v1/jobs/${job.id}`);
  assert.equal(rawMember(done.text, 'result', value.length), value);
});

test('a result of null is a result, an absent one is none', async () => {
  const [a, b] = await leasedMany('null-result', 2);
  await many('ack', [{ ...token(a), result: null }, token(b)]);
  const [withNull, without] = [await get(client, a.id), await get(client, b.id)];
  assert.equal(withNull.result, null);
  assert.equal('result' in without, false);
});

test('a result of 64 KiB is kept; a larger one is dropped and the job is completed all the same', async () => {
  const [a, b] = await leasedMany('large-result', 2);
  const kept = await settleOk(client, 'ack', a, { result: 'x'.repeat(64 * 1024 - 2) });
  assert.equal('resultDropped' in kept, false);
  const dropped = await settleOk(client, 'ack', b, { result: 'x'.repeat(64 * 1024 - 1) });
  assert.equal(dropped.resultDropped, true);
  assert.equal((await get(client, a.id)).result.length, 64 * 1024 - 2);
  const done = await get(client, b.id);
  assert.deepEqual([done.state, 'result' in done], ['completed', false]);
});

test('releases are unlimited and counted, and spend no attempt', async () => {
  const id = await enqueue(client, 'released', { maxAttempts: 1 });
  for (let count = 1; count <= 12; count += 1) {
    const job = await leaseOne(client, 'released');
    assert.equal(job.attempt, 1);
    await settleOk(client, 'release', job);
  }
  const job = await get(client, id);
  assert.deepEqual([job.state, job.releases, job.attempt], ['ready', 12, 0]);
  assert.deepEqual(new Set(job.attempts.map(({ outcome }: any) => outcome)), new Set(['RELEASED']));
});

test('a release with a delay of 0s to 366d schedules the job', async () => {
  const [a, b] = await leasedMany('release-delay', 2);
  await settleOk(client, 'release', a, { delay: '366d' });
  assert.equal((await get(client, a.id)).state, 'scheduled');
  assertProblem(await settle(client, 'release', b, { delay: '31622400001ms' }), invalid('delay', /366d/));
  await settleOk(client, 'release', b, { delay: '0s' });
  assert.equal((await get(client, b.id)).state, 'ready');
});

test('GetJob with wait answers as soon as the job is completed, dead or cancelled', async () => {
  const jobs = await leasedMany('wait', 3);
  const started = performance.now();
  const waiting = jobs.map(({ id }) => client.get(`/v1/jobs/${id}?wait=30s`));
  await pause(50);
  await settleOk(client, 'ack', jobs[0], { result: 1 });
  await settleOk(client, 'nack', jobs[1], { final: true });
  assert.equal((await client.post(`/v1/jobs/${jobs[2].id}/cancel`, { force: true })).status, 200);
  const states = (await Promise.all(waiting)).map(({ body }) => body.state);
  assert.deepEqual(states, ['completed', 'dead', 'cancelled']);
  assert.ok(performance.now() - started < 10_000);
});

test('GetJob with wait answers the state of the moment at the end, and at once when the job is not there', async () => {
  const job = await leased(client, 'wait-end');
  const started = performance.now();
  const answer = await client.get(`/v1/jobs/${job.id}?wait=300ms`);
  assert.deepEqual([answer.status, answer.body.state], [200, 'leased']);
  assert.ok(performance.now() - started >= 295);
  assertProblem(await client.get(`/v1/jobs/${UNKNOWN_ID}?wait=30s`), NOT_FOUND);
  assertProblem(await client.get(`/v1/jobs/${job.id}?wait=60001ms`), invalid('wait'));
  assertProblem(await client.get(`/v1/jobs/${job.id}?wait=1s&wait=2s`), invalid('wait', /more than once/));
  assertProblem(await client.get(`/v1/jobs/${job.id}?include=payload`), invalid('include', /not a known field/));
});

test('GetJob with wait is told of an end by another instance', async () => {
  const other = await service.another();
  try {
    const job = await leased(client, 'wait-other');
    const waiting = clientFor(other.base, client.key).get(`/v1/jobs/${job.id}?wait=20s`);
    await settleOk(client, 'ack', job);
    assert.equal((await waiting).body.state, 'completed');
  } finally {
    await other.stop();
  }
});

test('a listing leaves out payload, result and attempts unless include names them', async () => {
  const job = await leased(client, 'listing', { payload: 'p', kind: 'k' });
  await settleOk(client, 'ack', job, { result: 'r' });
  const list = async (query = '') => (await client.get(`/v1/queues/listing/jobs${query}`)).body.jobs[0];
  const bare = await list();
  for (const name of ['payload', 'result', 'attempts']) assert.equal(name in bare, false, name);
  const full = await list('?include=payload,result&include=attempts');
  assert.deepEqual([full.payload, full.result, full.attempts.length], ['p', 'r', 1]);
  assertProblem(await client.get('/v1/queues/listing/jobs?include=secret'), invalid('include[0]'));
});

test('a listing is filtered by state, kind and age, and paged with limit and cursor', async () => {
  const jobs = Array.from({ length: 5 }, (_, index) => ({ queue: 'pages', kind: index % 2 === 0 ? 'even' : 'odd' }));
  const made = (await client.post('/v1/jobs/batch', { jobs })).body.jobs.map(({ id }: any) => id);
  await leaseOne(client, 'pages');
  const list = async (query: string) => (await client.get(`/v1/queues/pages/jobs?${query}`)).body;
  const idsOf = (page: any) => page.jobs.map(({ id }: any) => id);
  assert.deepEqual(idsOf(await list('state=ready')), made.slice(1));
  assert.deepEqual(idsOf(await list('state=leased')), made.slice(0, 1));
  assert.deepEqual(idsOf(await list('state=ready&kind=odd')), [made[1], made[3]]);
  assert.deepEqual(idsOf(await list('olderThan=2001-01-01T00:00:00Z')), []);
  assert.equal(idsOf(await list('newerThan=2001-01-01T00:00:00Z')).length, 5);
  const first = await list('state=ready&limit=3');
  const second = await list(`state=ready&limit=3&cursor=${encodeURIComponent(first.nextCursor)}`);
  assert.deepEqual([...idsOf(first), ...idsOf(second)], made.slice(1));
  assert.equal('nextCursor' in second, false);
  assertProblem(await client.get('/v1/queues/pages/jobs?limit=1001'), invalid('limit', /1000/));
  assertProblem(await client.get('/v1/queues/pages/jobs?limit=0'), invalid('limit', /1/));
  assertProblem(await client.get('/v1/queues/pages/jobs?cursor=nonsense'), invalid('cursor'));
  assertProblem(await client.get('/v1/queues/pages/jobs?state=done'), invalid('state'));
  assertProblem(await client.get('/v1/queues/no-such/jobs'), NOT_FOUND);
});

test('settling, reading and listing need their scopes', async () => {
  const none = await service.tenant({ scopes: ['enqueue'] });
  const denied = { status: 403, code: 'PERMISSION_DENIED' };
  for (const verb of VERBS)
    assertProblem(await none.post(`/v1/jobs/${UNKNOWN_ID}/${verb}`, { leaseToken: 'x' }), denied);
  for (const verb of VERBS) assertProblem(await none.post(`/v1/leases/${verb}`, { items: [] }), denied);
  assertProblem(await none.post('/v1/leases/settle', {}), denied);
  assertProblem(await none.get(`/v1/jobs/${UNKNOWN_ID}`), denied);
  assertProblem(await none.get('/v1/queues/q/jobs'), denied);
  const worker = await service.tenant({ scopes: ['work'] });
  assertProblem(await worker.get(`/v1/jobs/${UNKNOWN_ID}`), NOT_FOUND);
  assertProblem(await worker.get('/v1/queues/q/jobs'), denied);
});

test('an ack is known for at least 10 minutes although the queue keeps completed jobs for 0s', async () => {
  assert.equal((await client.put('/v1/queues/not-kept', { retainCompleted: '0s' })).status, 200);
  const job = await leased(client, 'not-kept');
  await settleOk(client, 'ack', job);
  const other = await leased(client, 'turn');
  await runOut(service, [other.id]);
  await until('a turn of the background work', async () => (await get(client, other.id)).state === 'ready');
  assert.equal((await settle(client, 'ack', job)).body.outcome, 'ALREADY_SETTLED');
});
