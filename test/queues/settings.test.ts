import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { getQueue } from '../../src/queues/get.js';
import { listQueues } from '../../src/queues/list.js';
import { pauseQueue } from '../../src/queues/pause.js';
import { putQueue } from '../../src/queues/put.js';
import { resumeQueue } from '../../src/queues/resume.js';
import { DEFAULT_SETTINGS, SETTING_NAMES } from '../../src/queues/settings.js';
import { getQueueStats } from '../../src/queues/stats.js';
import { markRates } from '../../src/tasks/mark-rates.js';
import { openRoom, place, type Room } from './room.js';

let room: Room;
before(async () => (room = await openRoom()));
after(() => room.close());

const fieldsOf =
  (...names: string[]) =>
  (error: any) => {
    assert.equal(error.code, 'INVALID_ARGUMENT');
    assert.deepEqual(error.fields.map(({ field }: any) => field).sort(), [...names].sort());
    return true;
  };

test('a queue made by its first enqueue has the same settings as one put without any', async () => {
  await room.engine.queues.findOrCreate(room.tenant, 'enqueued');
  const made = await room.call(getQueue, { queue: 'enqueued' });
  const put = await room.call(putQueue, { queue: 'put' });
  for (const name of SETTING_NAMES) {
    assert.deepEqual(made[name], put[name]);
    assert.deepEqual(put[name], DEFAULT_SETTINGS[name]);
  }
  assert.deepEqual(put.counts, { scheduled: 0, ready: 0, leased: 0, dead: 0 });
  assert.equal(put.paused, false);
});

test('PUT changes what it names, each whole, and reset puts defaults back', async () => {
  await room.call(putQueue, {
    queue: 'a',
    maxAttempts: 9,
    maxBacklog: 5,
    retry: { type: 'exponential', initial: 1000 },
  });
  const second = await room.call(putQueue, {
    queue: 'a',
    visibilityTimeout: 60_000,
    retry: { type: 'fixed', delays: [5, 7] },
  });
  assert.equal(second.maxAttempts, 9);
  assert.equal(second.maxBacklog, 5);
  assert.equal(second.visibilityTimeout, 60_000);
  assert.deepEqual(second.retry, { type: 'fixed', delays: [5, 7], jitter: 0 });
  const third = await room.call(putQueue, { queue: 'a', reset: ['maxBacklog', 'retry', 'maxAttempts'] });
  assert.equal(third.maxBacklog, undefined);
  assert.equal(third.maxAttempts, 5);
  assert.equal(third.visibilityTimeout, 60_000);
  assert.deepEqual(third.retry, { type: 'exponential', initial: 10_000, factor: 2, max: 3_600_000, jitter: 0.2 });
  assert.ok(third.updatedAt > second.updatedAt);
  assert.equal(third.createdAt, second.createdAt);
});

test('a retry policy is stored with the members it leaves out at their defaults', async () => {
  const queue = await room.call(putQueue, { queue: 'b', retry: { type: 'exponential', factor: 3 } });
  assert.deepEqual(queue.retry, { type: 'exponential', initial: 10_000, factor: 3, max: 3_600_000, jitter: 0.2 });
});

test('flow limits are set, kept, and put back to none', async () => {
  const limits = { maxInFlight: 3, rateLimit: { jobs: 10, per: 60_000 } };
  await room.call(putQueue, { queue: 'l', ...limits });
  const kept = await room.call(putQueue, { queue: 'l', maxAttempts: 2 });
  assert.deepEqual({ maxInFlight: kept.maxInFlight, rateLimit: kept.rateLimit }, limits);
  const reset = await room.call(putQueue, { queue: 'l', reset: ['rateLimit', 'maxInFlight'] });
  assert.deepEqual([reset.maxInFlight, reset.rateLimit], [undefined, undefined]);
});

test('a setting both set and reset is refused and both are named', async () => {
  await assert.rejects(
    room.call(putQueue, { queue: 'c', maxAttempts: 3, reset: ['maxAttempts'] }),
    fieldsOf('maxAttempts', 'reset'),
  );
});

test('payloads are never kept longer than their jobs, whichever of the two settings changes', async () => {
  const refused = fieldsOf('retainPayload', 'retainCompleted');
  await assert.rejects(room.call(putQueue, { queue: 'd', retainPayload: 2, retainCompleted: 1 }), refused);
  await assert.rejects(room.call(putQueue, { queue: 'd', retainPayload: 86_400_001 }), refused);
  await assert.rejects(room.call(getQueue, { queue: 'd' }), { code: 'NOT_FOUND' });
  await room.call(putQueue, { queue: 'd', retainPayload: 172_800_000, retainCompleted: 172_800_000 });
  await assert.rejects(room.call(putQueue, { queue: 'd', retainCompleted: 1000 }), refused);
  await assert.rejects(room.call(putQueue, { queue: 'd', reset: ['retainCompleted'] }), refused);
  const queue = await room.call(putQueue, { queue: 'd', retainCompleted: 1000, reset: ['retainPayload'] });
  assert.equal(queue.retainPayload, undefined);
});

test('what is out of bounds or unknown is refused and named', async () => {
  const wrong: [object, string][] = [
    [{ visibilityTimeout: 999 }, 'visibilityTimeout'],
    [{ visibilityTimeout: 43_200_001 }, 'visibilityTimeout'],
    [{ maxAttempts: 0 }, 'maxAttempts'],
    [{ idempotencyWindow: 30 * 86_400_000 + 1 }, 'idempotencyWindow'],
    [{ maxPayloadBytes: 2 * 1024 * 1024 + 1 }, 'maxPayloadBytes'],
    [{ retry: { type: 'fixed', delays: [] } }, 'retry.delays'],
    [{ retry: { type: 'exponential', factor: 101 } }, 'retry.factor'],
    [{ deadLetterQueue: 'no spaces' }, 'deadLetterQueue'],
    [{ maxInFlight: 0 }, 'maxInFlight'],
    [{ rateLimit: { jobs: 1 } }, 'rateLimit.per'],
    [{ reset: ['nothing'] }, 'reset[0]'],
  ];
  for (const [settings, field] of wrong)
    await assert.rejects(room.call(putQueue, { queue: 'e', ...settings }), fieldsOf(field));
});

test('a dead letter queue is made when it is missing', async () => {
  const queue = await room.call(putQueue, { queue: 'f', deadLetterQueue: 'f-dead' });
  assert.equal(queue.deadLetterQueue, 'f-dead');
  assert.equal((await room.call(getQueue, { queue: 'f-dead' })).name, 'f-dead');
});

test('dead letters never go in a circle, however long', async () => {
  const refused = fieldsOf('deadLetterQueue');
  await assert.rejects(room.call(putQueue, { queue: 'g0', deadLetterQueue: 'g0' }), refused);
  await assert.rejects(room.call(getQueue, { queue: 'g0' }), { code: 'NOT_FOUND' });
  await room.call(putQueue, { queue: 'g1', deadLetterQueue: 'g2' });
  await room.call(putQueue, { queue: 'g2', deadLetterQueue: 'g3' });
  await assert.rejects(room.call(putQueue, { queue: 'g3', maxAttempts: 7, deadLetterQueue: 'g1' }), refused);
  const queue = await room.call(getQueue, { queue: 'g3' });
  assert.equal(queue.maxAttempts, 5);
  assert.equal(queue.deadLetterQueue, undefined);
});

test('two changes at once cannot make a circle together', async () => {
  for (let round = 0; round < 5; round++) {
    const [a, b] = [`h${round}-a`, `h${round}-b`];
    const results = await Promise.allSettled([
      room.call(putQueue, { queue: a, deadLetterQueue: b }),
      room.call(putQueue, { queue: b, deadLetterQueue: a }),
    ]);
    assert.deepEqual(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  }
});

test('two PUTs at once make one queue', async () => {
  await Promise.all(Array.from({ length: 6 }, (_, n) => room.call(putQueue, { queue: 'i', maxAttempts: n + 1 })));
  assert.equal((await room.sql(`select from queue where name = 'i'`)).length, 1);
});

test('queues are listed by name, page by page, and only those of the tenant', async () => {
  const other = { id: '01890000-0000-7000-8000-000000000001', name: 'other', autoCreateQueues: true, limits: {} };
  await room.sql('insert into tenant (id, name) values ($1, $2)', [other.id, other.name]);
  for (const name of ['x3', 'x1', 'X2']) await room.call(putQueue, { queue: name }, other);
  const first = await room.call(listQueues, { limit: 2 }, other);
  assert.deepEqual(
    first.queues.map(({ name }: any) => name),
    ['X2', 'x1'],
  );
  await room.call(putQueue, { queue: 'A0' }, other);
  const second = await room.call(listQueues, { limit: 2, cursor: first.nextCursor }, other);
  assert.deepEqual(
    second.queues.map(({ name }: any) => name),
    ['x3'],
  );
  assert.equal(second.nextCursor, undefined);
  await assert.rejects(room.call(getQueue, { queue: 'x1' }), { code: 'NOT_FOUND' });
});

test('pause and resume may be repeated, and resume wakes those who wait', async () => {
  const { updatedAt } = await room.call(putQueue, { queue: 'p' });
  const paused = await room.call(pauseQueue, { queue: 'p' });
  assert.equal(paused.paused, true);
  assert.ok(paused.updatedAt > updatedAt);
  assert.deepEqual(await room.call(pauseQueue, { queue: 'p' }), paused);
  room.woken.ready.length = 0;
  assert.equal((await room.call(resumeQueue, { queue: 'p' })).paused, false);
  assert.equal((await room.call(resumeQueue, { queue: 'p' })).paused, false);
  assert.ok(room.woken.ready.includes(await room.queueId('p')));
  await assert.rejects(room.call(pauseQueue, { queue: 'nowhere' }), { code: 'NOT_FOUND' });
});

test('stats tell counts, the oldest ready age, leases by worker', async () => {
  await room.call(putQueue, { queue: 's' });
  const queueId = await room.queueId('s');
  assert.equal((await room.call(getQueueStats, { queue: 's' })).oldestReadyAge, undefined);
  await place(room, 'ready', { queueId, count: 2, rank: -5 });
  await place(room, 'ready', { queueId, rank: 3, minutesAgo: 7 });
  await place(room, 'scheduled', { queueId, count: 4 });
  await place(room, 'dead', { queueId, count: 2 });
  await place(room, 'lease', { queueId, count: 3, kind: 'w1' });
  await place(room, 'lease', { queueId });
  const stats = await room.call(getQueueStats, { queue: 's' });
  assert.deepEqual(stats.counts, { scheduled: 4, ready: 3, leased: 4, dead: 2 });
  assert.ok(stats.oldestReadyAge >= 7 * 60_000 && stats.oldestReadyAge < 8 * 60_000);
  assert.deepEqual(stats.workers, [
    { worker: 'w1', leases: 3 },
    { worker: undefined, leases: 1 },
  ]);
  assert.equal(stats.paused, false);
});

test('rates are told from the rise of the counters over the last minute, and fall to zero in a queue gone quiet', async () => {
  await room.call(putQueue, { queue: 'r' });
  const queueId = await room.queueId('r');
  const age = (seconds: number) =>
    room.sql(
      `update queue set mark_at = mark_at - $2::int * interval '1 second', earlier_mark_at = earlier_mark_at - $2::int * interval '1 second'
      where id = $1`,
      [queueId, seconds],
    );
  await place(room, 'finished', { queueId, count: 60 });
  await age(30);
  await markRates.run(room.engine);
  await age(30);
  const busy = (await room.call(getQueueStats, { queue: 'r' })).rates;
  assert.ok(busy.enqueued > 0.9 && busy.enqueued <= 1.01, String(busy.enqueued));
  assert.ok(busy.completed > 0.9 && busy.failed === 0);
  await markRates.run(room.engine);
  const quiet = (await room.call(getQueueStats, { queue: 'r' })).rates;
  assert.deepEqual(quiet, { enqueued: 0, completed: 0, failed: 0 });
  await age(30);
  assert.equal((await markRates.run(room.engine)).counts['marked'], 0);
  await age(100_000);
  await place(room, 'finished', { queueId, count: 60 });
  const again = (await room.call(getQueueStats, { queue: 'r' })).rates;
  assert.equal(again.completed, 1);
});
