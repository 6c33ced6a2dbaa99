import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { getQueue } from '../../src/queues/get.js';
import { putQueue } from '../../src/queues/put.js';
import { expireJobs } from '../../src/tasks/expire-jobs.js';
import { foldCounts } from '../../src/tasks/fold-counts.js';
import { forwardDead } from '../../src/tasks/forward-dead.js';
import { createPrune } from '../../src/tasks/prune.js';
import type { QueuesSample } from '../../src/observability/queue-metrics.js';
import { createSampleDepth } from '../../src/tasks/sample-depth.js';
import { openRoom, place, type Room } from '../queues/room.js';

const MINUTE = 60_000;
let room: Room;
let queueId: number;
let queue: string;
let made = 0;
before(async () => (room = await openRoom()));
after(() => room.close());
beforeEach(async () => {
  queue = `q${++made}`;
  await room.call(putQueue, { queue });
  queueId = await room.queueId(queue);
});

const countsOf = async (name: string) => (await room.call(getQueue, { queue: name })).counts;
const idsIn = async (table: string, ids: string[], column = 'job_id') =>
  (await room.sql(`select ${column} as id from ${table} where ${column} = any($1)`, [ids])).map(({ id }) => id);

test('folding keeps the sum exact at every look, while others write and fold', async () => {
  let done = false;
  const write = async () => {
    for (let n = 0; n < 100; n++) {
      await room.sql('insert into queue_count (queue_id, ready, enqueued) values ($1, 1, 1), ($1, -1, 0)', [queueId]);
    }
  };
  const fold = async () => {
    while (!done) await foldCounts.run(room.engine);
  };
  const look = async () => {
    let seen = 0;
    while (!done) {
      const [sum] = await room.sql(
        'select coalesce(sum(ready), 0)::int as ready, coalesce(sum(enqueued), 0)::int as enqueued from queue_count where queue_id = $1',
        [queueId],
      );
      assert.equal(sum.ready, 0);
      assert.ok(sum.enqueued >= seen, 'a counter that only rises never falls');
      seen = sum.enqueued;
    }
  };
  const others = [fold(), fold(), look()];
  await Promise.all([write(), write(), write()]);
  done = true;
  await Promise.all(others);
  await foldCounts.run(room.engine);
  const rows = await room.sql('select ready::int, enqueued::int from queue_count where queue_id = $1', [queueId]);
  assert.deepEqual(rows, [{ ready: 0, enqueued: 300 }]);
  assert.equal((await foldCounts.run(room.engine)).counts['folded'], 0, 'what is folded is left alone');
});

test('waiting jobs past their expiry die as expired; others, and purged ones, do not', async () => {
  const past = '2020-01-01T00:00:00Z';
  const purged = await place(room, 'ready', { queueId, expiresAt: past });
  await room.sql(`update queue set cut = nextval('pos') where id = $1`, [queueId]);
  const dying = await place(room, 'ready', { queueId, count: 2, expiresAt: past, ended: 'released' });
  dying.push(...(await place(room, 'scheduled', { queueId, expiresAt: past })));
  const living = await place(room, 'ready', { queueId, expiresAt: '2090-01-01T00:00:00Z' });
  const leased = await place(room, 'lease', { queueId, expiresAt: past });
  room.woken.ended.length = 0;
  assert.equal((await expireJobs.run(room.engine)).counts['expired'], 3);
  assert.deepEqual([...room.woken.ended].sort(), [...dying].sort());
  const dead = await room.sql('select reason, ended, epoch, lease_id from dead where job_id = $1', [dying[0]]);
  assert.deepEqual(dead, [{ reason: 'expired', ended: 'released', epoch: 1, lease_id: '7' }]);
  assert.deepEqual(await countsOf(queue), { scheduled: 0, ready: 1, leased: 1, dead: 3 });
  const stay = [...living, ...leased, ...purged].sort();
  assert.deepEqual((await idsIn('job_expiry', [...dying, ...stay])).sort(), stay);
});

test('a leased job is looked at again, and dies if it was put back after its expiry', async () => {
  const [id] = await place(room, 'lease', { queueId, expiresAt: '2020-01-01T00:00:00Z' });
  assert.equal((await expireJobs.run(room.engine)).counts['expired'], 0);
  await room.sql(
    `with back as (delete from lease where job_id = $1 returning *)
    insert into ready (queue_id, rank, job_id, ready_at, expires_at, lease_id, epoch, attempt, releases, size, ended)
    select queue_id, rank, job_id, now(), expires_at, lease_id, epoch, attempt, releases, size, 'nacked' from back`,
    [id],
  );
  await room.sql(`update job_expiry set expires_at = expires_at - interval '5 seconds' where job_id = $1`, [id]);
  assert.equal((await expireJobs.run(room.engine)).counts['expired'], 1);
  assert.equal((await idsIn('job_expiry', [id!])).length, 0);
});

test('dead jobs go on to the dead letter queue, ready, with attempts from 1, and say where they come from', async () => {
  await room.call(putQueue, { queue, deadLetterQueue: `${queue}-dead` });
  const target = await room.queueId(`${queue}-dead`);
  const [id] = await place(room, 'dead', { queueId, rank: 4, expiresAt: '2021-01-01T00:00:00Z' });
  const [bodiless] = await place(room, 'dead', { queueId });
  await room.sql('delete from job where id = $1', [bodiless]);
  room.woken.ready.length = 0;
  assert.equal((await forwardDead.run(room.engine)).counts['forwarded'], 1);
  assert.deepEqual(room.woken.ready, [target]);
  const [row] = await room.sql('select * from ready where job_id = $1', [id]);
  assert.deepEqual([row.queue_id, row.attempt, row.epoch, row.rank, row.expires_at], [target, 0, 1, 4, null]);
  const [body] = await room.sql('select queue_id, dead_from, dead_from_reason, expires_at from job where id = $1', [
    id,
  ]);
  assert.deepEqual(body, { queue_id: target, dead_from: queue, dead_from_reason: 'attempts_spent', expires_at: null });
  assert.equal((await countsOf(queue)).dead, 1);
  assert.equal((await countsOf(`${queue}-dead`)).ready, 1);
});

test('two instances forward each job once', async () => {
  await room.call(putQueue, { queue, deadLetterQueue: `${queue}-dead` });
  await place(room, 'dead', { queueId, count: 1500 });
  const drain = async () => {
    let sum = 0;
    for (let again = true; again;) {
      const result = await forwardDead.run(room.engine);
      sum += result.counts['forwarded']!;
      again = result.again ?? false;
    }
    return sum;
  };
  const [a, b] = await Promise.all([drain(), drain()]);
  const rest = await drain();
  assert.equal(a + b + rest, 1500);
  assert.equal((await countsOf(`${queue}-dead`)).ready, 1500);
});

test('finished jobs go after retainCompleted, with bodies and attempts; younger ones stay', async () => {
  await room.call(putQueue, { queue, retainCompleted: 60 * MINUTE });
  const old = await place(room, 'finished', { queueId, count: 2, minutesAgo: 61 });
  const young = await place(room, 'finished', { queueId, minutesAgo: 59 });
  assert.equal((await createPrune().run(room.engine)).counts['finished'], 2);
  assert.deepEqual(await idsIn('finished', [...old, ...young]), young);
  assert.deepEqual(await idsIn('job', [...old, ...young], 'id'), young);
  assert.deepEqual(await idsIn('attempt', [...old, ...young]), young);
});

test('with retainCompleted 0s the body goes at once and the row, which answers retried acks, after ten minutes', async () => {
  await room.call(putQueue, { queue, retainCompleted: 0 });
  const ids = await place(room, 'finished', { queueId, minutesAgo: 9, count: 2 });
  assert.equal((await createPrune().run(room.engine)).counts['bodies'], 2);
  assert.equal((await idsIn('finished', ids)).length, 2);
  await room.sql(`update finished set ended_at = ended_at - interval '1 minute 1 second' where job_id = any($1)`, [
    ids,
  ]);
  assert.equal((await createPrune().run(room.engine)).counts['finished'], 2);
});

test('bodies go after retainPayload, however many share an instant, and what came later follows', async () => {
  await room.call(putQueue, { queue, retainPayload: 5 * MINUTE });
  const ids = await place(room, 'finished', { queueId, minutesAgo: 6, count: 3000 });
  const young = await place(room, 'finished', { queueId, minutesAgo: 4 });
  const prune = createPrune();
  let bodies = 0;
  for (let again = true; again;) {
    const result = await prune.run(room.engine);
    bodies += result.counts['bodies']!;
    again = result.again ?? false;
  }
  assert.equal(bodies, 3000);
  assert.equal((await idsIn('finished', ids)).length, 3000);
  assert.equal((await idsIn('job', young, 'id')).length, 1);
  await room.sql(`update finished set ended_at = ended_at - interval '2 minutes' where job_id = any($1)`, [young]);
  assert.equal((await prune.run(room.engine)).counts['bodies'], 1);
});

test('dead jobs go after retainDead', async () => {
  await room.call(putQueue, { queue, retainDead: 60 * MINUTE });
  const old = await place(room, 'dead', { queueId, minutesAgo: 61 });
  const young = await place(room, 'dead', { queueId, minutesAgo: 59 });
  assert.equal((await createPrune().run(room.engine)).counts['dead'], 1);
  assert.deepEqual(await idsIn('dead', [...old, ...young]), young);
  assert.deepEqual(await idsIn('job', [...old, ...young], 'id'), young);
  assert.equal((await countsOf(queue)).dead, 1);
});

test('a job that waits or runs is never pruned, and keeps its key past the window', async () => {
  await room.call(putQueue, { queue, retainCompleted: 0, retainDead: 0 });
  const ids: string[] = [];
  for (const where of ['ready', 'scheduled', 'lease'] as const) {
    ids.push(...(await place(room, where, { queueId, key: where, minutesAgo: 3 * 24 * 60 })));
  }
  const over = await place(room, 'finished', { queueId, key: 'over', minutesAgo: 3 * 24 * 60 });
  const within = await place(room, 'finished', { queueId, key: 'within', minutesAgo: 60 });
  const prune = createPrune();
  assert.equal((await prune.run(room.engine)).counts['keys'], 1);
  await prune.run(room.engine);
  assert.equal((await idsIn('job', ids, 'id')).length, 3);
  const keys = await room.sql('select key from idempotency where job_id = any($1) order by key', [
    [...ids, ...over, ...within],
  ]);
  assert.deepEqual(
    keys.map(({ key }) => key),
    ['lease', 'ready', 'scheduled', 'within'],
  );
});

test('expired keys of unfinished jobs do not keep the task from those behind them', async () => {
  await place(room, 'ready', { queueId });
  await room.sql(
    `insert into idempotency (queue_id, key, job_id, fingerprint, expires_at)
    select $1::int, 'busy-' || n, (select job_id from ready where queue_id = $1::int), '', '2020-01-01' from generate_series(1, 4500) n`,
    [queueId],
  );
  await room.sql(
    `insert into idempotency (queue_id, key, job_id, fingerprint, expires_at) values ($1, 'free', gen_random_uuid(), '', '2020-01-02')`,
    [queueId],
  );
  const prune = createPrune();
  while ((await prune.run(room.engine)).again);
  const [left] = await room.sql('select count(*)::int as n from idempotency where queue_id = $1', [queueId]);
  assert.equal(left.n, 4500);
});

test('the deepest queues are sampled by name, without purged jobs, and the rest as other', async () => {
  await place(room, 'ready', { queueId, count: 20_000, minutesAgo: 2 });
  const small = await Promise.all(
    Array.from({ length: 101 }, async (_, n) => {
      await room.call(putQueue, { queue: `small-${queue}-${n}` });
      return room.queueId(`small-${queue}-${n}`);
    }),
  );
  await room.sql('insert into queue_count (queue_id, scheduled) select unnest($1::int[]), 1', [small]);
  await room.sql('insert into queue_count (queue_id, enqueued) values ($1, 9)', [small.at(-1)]);
  let found!: QueuesSample;
  const sample = createSampleDepth({
    queues: (each) => void (found = each),
    queuesUnknown: () => undefined,
    storage: () => undefined,
    storageUnknown: () => undefined,
  });
  const shown = (name: string) => found.queues.find((each) => each.queue === name);
  await sample.run(room.engine);
  assert.equal(shown(queue)!.counts.ready, 20_000);
  assert.ok(found.queues.length > 50 && found.queues.length <= 100, `${found.queues.length}`);
  assert.deepEqual(shown(`small-${queue}-100`)!.enqueued, 9, 'shown for its traffic');
  assert.ok(found.other.scheduled > 0);
  const age = shown(queue)!.oldestReady;
  assert.ok(age >= 120 && age < 180);
  await room.sql(`update queue set cut = nextval('pos') where id = $1`, [queueId]);
  await sample.run(room.engine);
  assert.equal(shown(queue)!.counts.ready, 0);
});

test('how late the oldest due schedule and scheduled job are is sampled, purged jobs left out', async () => {
  await place(room, 'scheduled', { queueId, count: 3 });
  await room.sql(`delete from scheduled where queue_id <> $1`, [queueId]);
  await room.sql(`update scheduled set due_at = now() - interval '5 minutes'`);
  await room.sql(
    `insert into schedule (id, tenant_id, name, every, time_zone, anchor_at, misfire, overlap, queue, is_json, rank, size, look_at)
    values (gen_random_uuid(), $1, $2, 60000, 'UTC', now(), 'skip', 'allow', $2, true, 0, 0, now() - interval '2 minutes')`,
    [room.tenant.id, queue],
  );
  let found!: QueuesSample;
  const sample = createSampleDepth({
    queues: (each) => void (found = each),
    queuesUnknown: () => undefined,
    storage: () => undefined,
    storageUnknown: () => undefined,
  });
  const near = (seconds: number, expected: number): boolean => seconds >= expected && seconds < expected + 60;
  await sample.run(room.engine);
  assert.ok(near(found.scheduleLag, 120), `${found.scheduleLag}`);
  assert.ok(near(found.dueJobLag, 300), `${found.dueJobLag}`);
  await room.sql(`update queue set cut = nextval('pos') where id = $1`, [queueId]);
  await room.sql(`update schedule set look_at = now() + interval '1 hour'`);
  await sample.run(room.engine);
  assert.deepEqual([found.scheduleLag, found.dueJobLag], [0, 0]);
});
