import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  CONFLICT,
  enqueue,
  get,
  invalid,
  lease,
  leased,
  leaseOne,
  NOT_FOUND,
  putQueue,
  settleOk,
  UNKNOWN_ID,
} from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const NO_JOBS = { scheduled: 0, ready: 0, leased: 0, dead: 0 };

/** A dead job of that queue. */
async function dead(queue: string, fields: object = {}): Promise<string> {
  const job = await leased(client, queue, fields);
  await settleOk(client, 'nack', job, { final: true, error: { message: 'no use' } });
  return job.id as string;
}

test('a queue put without settings shows every default', async () => {
  const { status, body } = await client.put('/v1/queues/plain');
  assert.equal(status, 200);
  const { createdAt, updatedAt, ...shown } = body;
  assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
  assert.equal(typeof updatedAt, 'string');
  assert.deepEqual(shown, {
    name: 'plain',
    visibilityTimeout: '30s',
    maxAttempts: 5,
    retry: { type: 'exponential', initial: '10s', factor: 2, max: '3600s', jitter: 0.2 },
    retainCompleted: '86400s',
    retainDead: '2592000s',
    idempotencyWindow: '86400s',
    paused: false,
    counts: NO_JOBS,
  });
  assert.deepEqual((await client.get('/v1/queues/plain')).body, body);
});

test('settings are taken at their bounds and refused one step beyond, naming field and limit', async () => {
  const bounds: [object, object, string, RegExp][] = [
    [{ visibilityTimeout: '1s' }, { visibilityTimeout: '999ms' }, 'visibilityTimeout', /at least 1s/],
    [{ visibilityTimeout: '12h' }, { visibilityTimeout: '12h1ms' }, 'visibilityTimeout', /at most 12h/],
    [{ maxAttempts: 1000 }, { maxAttempts: 1001 }, 'maxAttempts', /at most 1000/],
    [{ maxAttempts: 1 }, { maxAttempts: 0 }, 'maxAttempts', /at least 1/],
    [{ retainCompleted: '365d' }, { retainCompleted: '366d' }, 'retainCompleted', /at most 365d/],
    [{ retainDead: '0s' }, { retainDead: '-1s' }, 'retainDead', /duration/],
    [{ idempotencyWindow: '30d' }, { idempotencyWindow: '31d' }, 'idempotencyWindow', /at most 30d/],
    [{ maxPayloadBytes: 2_097_152 }, { maxPayloadBytes: 2_097_153 }, 'maxPayloadBytes', /at most 2097152/],
    [{ maxBacklog: 1 }, { maxBacklog: 0 }, 'maxBacklog', /at least 1/],
    [{ maxInFlight: 1 }, { maxInFlight: 0 }, 'maxInFlight', /at least 1/],
    [{ maxAttempts: 2 }, { maxAttempts: '2' }, 'maxAttempts', /integer/],
    [{ maxAttempts: 2 }, { maxAttempts: null }, 'maxAttempts', /./],
    [{}, { ttl: '1s' }, 'ttl', /not a known field/],
    [{ reset: ['maxAttempts'] }, { reset: ['name'] }, 'reset[0]', /one of/],
  ];
  for (const [good, bad, field, says] of bounds) {
    assert.equal((await client.put('/v1/queues/bounds', good)).status, 200, JSON.stringify(good));
    assertProblem(await client.put('/v1/queues/bounds', bad), invalid(field, says));
  }
  assertProblem(await client.put(`/v1/queues/${'q'.repeat(81)}`), invalid('queue', /\{0,79\}/));
  assertProblem(await client.put('/v1/queues/-x'), invalid('queue'));
});

test('maxBacklog refuses what is beyond it with 429 and Retry-After, and takes jobs again when there is room', async () => {
  await putQueue(client, 'narrow', { maxBacklog: 2 });
  const three = [{ queue: 'narrow' }, { queue: 'narrow' }, { queue: 'narrow' }];
  assertProblem(await client.post('/v1/jobs/batch', { jobs: three }), { status: 429, code: 'BACKLOG_FULL' });
  await enqueue(client, 'narrow');
  await enqueue(client, 'narrow', { delay: '1h' });
  const full = await client.post('/v1/queues/narrow/jobs', {});
  assertProblem(full, { status: 429, code: 'BACKLOG_FULL' });
  assert.ok(Number(full.headers.get('retry-after')) >= 1);
  const jobs = [{ queue: 'elsewhere' }, { queue: 'narrow' }];
  assertProblem(await client.post('/v1/jobs/batch', { jobs }), { status: 429, code: 'BACKLOG_FULL' });
  assert.deepEqual((await client.get('/v1/queues/elsewhere')).body.counts, NO_JOBS);
  await leaseOne(client, 'narrow');
  await enqueue(client, 'narrow');
});

test('an unknown queue is NOT_FOUND for every operation on one', async () => {
  for (const [method, path] of [
    ['GET', ''],
    ['GET', '/stats'],
    ['GET', '/jobs'],
    ['GET', '/dead'],
    ['DELETE', ''],
    ['POST', '/pause'],
    ['POST', '/resume'],
    ['POST', '/purge'],
    ['POST', '/dead/redrive'],
    ['POST', '/dead/delete'],
  ] as const) {
    assertProblem(await client.request(method, `/v1/queues/nowhere${path}`), NOT_FOUND);
  }
});

test('pause keeps jobs from being leased, takes enqueues and settles, and may be repeated; resume ends it', async () => {
  const held = await leased(client, 'halted');
  assert.equal((await client.post('/v1/queues/halted/pause')).body.paused, true);
  assert.equal((await client.post('/v1/queues/halted/pause')).status, 200);
  await enqueue(client, 'halted');
  assert.deepEqual(await lease(client, 'halted'), []);
  await settleOk(client, 'heartbeat', held);
  await settleOk(client, 'ack', held);
  assert.equal((await client.post('/v1/queues/halted/resume')).body.paused, false);
  assert.equal((await lease(client, 'halted')).length, 1);
});

test('purge answers 202 with what waited; none of it is found, leased or counted, and its keys are free', async () => {
  const running = await leased(client, 'purged');
  const ids = [
    await enqueue(client, 'purged', { idempotencyKey: 'k' }),
    await enqueue(client, 'purged', { delay: '1h' }),
  ];
  const purge = await client.post('/v1/queues/purged/purge');
  assert.equal(purge.status, 202);
  assert.deepEqual(purge.body, { purged: 2 });
  for (const id of ids) assertProblem(await client.get(`/v1/jobs/${id}`), NOT_FOUND);
  assert.deepEqual((await client.get('/v1/queues/purged')).body.counts, { ...NO_JOBS, leased: 1 });
  assert.deepEqual(await lease(client, 'purged'), []);
  const again = await client.post('/v1/queues/purged/jobs', { idempotencyKey: 'k' });
  assert.equal(`${again.status} ${again.body.deduplicated}`, '201 false');
  await settleOk(client, 'ack', running);
});

test('delete is 409 while there are jobs; with force it is done at once, and the holder of a lease gets NOT_FOUND', async () => {
  const held = await leased(client, 'doomed');
  assertProblem(await client.delete('/v1/queues/doomed'), CONFLICT);
  assert.equal((await client.delete('/v1/queues/doomed?force=true')).status, 200);
  assertProblem(await client.get('/v1/queues/doomed'), NOT_FOUND);
  assertProblem(await client.post(`/v1/jobs/${held.id}/ack`, { leaseToken: held.leaseToken }), NOT_FOUND);
  await enqueue(client, 'doomed');
  assert.deepEqual((await client.get('/v1/queues/doomed')).body.counts, { ...NO_JOBS, ready: 1 });
});

test('stats count exactly, tell the oldest age and who holds what', async () => {
  await leased(client, 'seen', {}, { worker: 'ada' });
  await enqueue(client, 'seen');
  await enqueue(client, 'seen', { delay: '1h' });
  await service.sql(
    `update stint.ready set ready_at = ready_at - interval '1 minute'
     where queue_id = (select max(id) from stint.queue where name = 'seen')`,
  );
  const { body } = await client.get('/v1/queues/seen/stats');
  assert.deepEqual(body.counts, { scheduled: 1, ready: 1, leased: 1, dead: 0 });
  assert.ok(Number.parseFloat(body.oldestReadyAge) >= 60);
  assert.deepEqual(body.workers, [{ worker: 'ada', leases: 1 }]);
  assert.ok(body.rates.enqueued > 0);
});

test('dead letters are listed, redriven by ids, by filter and all, dry or not, and deleted', async () => {
  const [one, two, three] = [await dead('grave'), await dead('grave', { kind: 'b' }), await dead('grave')];
  const listed = await client.get('/v1/queues/grave/dead');
  assert.deepEqual(
    listed.body.jobs.map(({ id, deadReason }: any) => [id, deadReason]),
    [one, two, three].map((id) => [id, 'final']),
  );
  const redrive = (body: object) => client.post('/v1/queues/grave/dead/redrive', body).then((answer) => answer.body);
  assert.deepEqual(await redrive({ dryRun: true }), { matched: 3, redriven: 0 });
  assert.deepEqual(await redrive({ ids: [one] }), { matched: 1, redriven: 1 });
  assert.deepEqual(await redrive({ filter: { kind: 'b' } }), { matched: 1, redriven: 1 });
  const job = await leaseOne(client, 'grave');
  assert.deepEqual([job.id, job.attempt, job.leaseEpoch], [one, 1, 2]);
  const gone = await client.post('/v1/queues/grave/dead/delete', { ids: [three] });
  assert.deepEqual(gone.body, { deleted: 1 });
  assertProblem(await client.get(`/v1/jobs/${three}`), NOT_FOUND);
});

test('what a redrive cannot do is refused and named', async () => {
  await dead('fixed');
  const redrive = (body: object) => client.post('/v1/queues/fixed/dead/redrive', body);
  assertProblem(await redrive({ ids: ['x'] }), invalid('ids[0]', /UUID/));
  assertProblem(await redrive({ ids: [UNKNOWN_ID], filter: {} }), invalid(['ids', 'filter']));
  assertProblem(await redrive({ rate: 0 }), invalid('rate', /at least 0.001/));
  assertProblem(await redrive({ toQueue: 'nowhere' }), NOT_FOUND);
  const ids = Array.from({ length: 1001 }, () => UNKNOWN_ID);
  assertProblem(await redrive({ ids }), invalid('ids', /at most 1000/));
});

test('a dead letter queue receives the job itself, ready, with where it died', async () => {
  await putQueue(client, 'mail', { deadLetterQueue: 'mail-dead' });
  const id = await dead('mail');
  await until('it has gone on', async () => (await get(client, id)).queue === 'mail-dead');
  const job = await get(client, id);
  assert.deepEqual([job.state, job.attempt, job.deadFrom], ['ready', 0, { queue: 'mail', reason: 'final' }]);
  const back = await client.put('/v1/queues/mail-dead', { deadLetterQueue: 'mail' });
  assertProblem(back, invalid('deadLetterQueue', /leads back/));
});

test('queues are listed with their counts, page by page', async () => {
  const own = await service.tenant();
  for (const name of ['c', 'a', 'b']) await putQueue(own, name);
  const first = await own.get('/v1/queues?limit=2');
  const second = await own.get(`/v1/queues?limit=2&cursor=${first.body.nextCursor}`);
  const names = [...first.body.queues, ...second.body.queues].map(({ name }: any) => name);
  assert.deepEqual(names, ['a', 'b', 'c']);
  assert.equal(second.body.nextCursor, undefined);
  assertProblem(await own.get('/v1/queues?limit=1001'), invalid('limit', /at most 1000/));
  assertProblem(await own.get('/v1/queues?limit=x'), invalid('limit', /integer/));
  assertProblem(await own.get('/v1/queues?cursor=%21'), invalid('cursor'));
});

test('an enqueue that is refused makes no queue', async () => {
  const jobs = [{ queue: 'never-one' }, { queue: 'never-two', payload: 'x'.repeat(300_000) }];
  assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 413);
  for (const { queue } of jobs) assertProblem(await client.get(`/v1/queues/${queue}`), NOT_FOUND);
});
