import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Tenant } from '../../src/core/operation.js';
import { deleteQueue } from '../../src/queues/delete.js';
import { putQueue } from '../../src/queues/put.js';
import { fireDue } from '../../src/schedules/fire-due.js';
import { getSchedule } from '../../src/schedules/get.js';
import { pauseSchedule } from '../../src/schedules/pause.js';
import { putSchedule } from '../../src/schedules/put.js';
import { resumeSchedule } from '../../src/schedules/resume.js';
import { runSchedule } from '../../src/schedules/run.js';
import { createDeleteTenants } from '../../src/tasks/delete-tenants.js';
import { openRoom, type Room } from '../queues/room.js';

/** C37, C38, C40, C42: time is moved through the rows, since the clock is the database's. */

const SECOND = 1_000_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

let room: Room;
let queue: string;
let name: string;
let made = 0;
before(async () => (room = await openRoom()));
after(() => room.close());
beforeEach(async () => {
  made += 1;
  [queue, name] = [`q${made}`, `s${made}`];
  // What an earlier test has left is not looked at any more.
  await room.sql('update schedule set look_at = null');
});

const put = (input: object = {}, as?: Tenant) =>
  room.call(putSchedule, { name, cron: '* * * * *', queue, ...input }, as);
const get = (as?: Tenant) => room.call(getSchedule, { name }, as);

/** Makes the schedule due as if nobody had looked for so long; the instant that it then waits for is answered. */
async function moveBack(micros: number, of = name): Promise<number> {
  const [row] = await room.sql(
    `update schedule s set next_fire_at = moved.at, look_at = moved.at
    from (select case when every is null then date_trunc('minute', clock_timestamp() - $2::bigint * interval '1 microsecond')
      else next_fire_at - $2::bigint * interval '1 microsecond' end as at from schedule where name = $1) moved
    where name = $1
    returning (extract(epoch from moved.at) * 1000000)::float8 as at`,
    [of, micros],
  );
  return row.at;
}

const lookAgain = (of = name) => room.sql('update schedule set look_at = clock_timestamp() where name = $1', [of]);

async function jobs(of = queue): Promise<any[]> {
  return room.sql(
    `select j.*, j.headers::json ->> 'stint-fire-at' as fire_at, r.pos, r.size
    from job j join queue q on q.id = j.queue_id left join ready r on r.job_id = j.id
    where q.name = $1 order by j.headers::json ->> 'stint-fire-at'`,
    [of],
  );
}

const instantsOf = async (of = queue): Promise<number[]> =>
  (await jobs(of)).map(({ fire_at: at }) => Date.parse(at) * 1_000);

describe('a due schedule', () => {
  test('makes one job as an enqueue would, which says of which schedule and instant it is', async () => {
    const payload = '{"b":1.0,"a":9007199254740993,"a":"\\u0000"}';
    await put({
      kind: 'nightly',
      payload,
      priority: 7,
      maxAttempts: 3,
      headers: { trace: 'x"y' },
      expiresAfter: 60_000,
    });
    const at = await moveBack(0);
    room.woken.ready.length = 0;
    const { counts } = await fireDue(room.engine);
    assert.deepEqual(counts, { fired: 1, missed: 0, skipped: 0, failed: 0 });
    const [job, ...more] = await jobs();
    assert.deepEqual(more, []);
    assert.equal(job.payload.toString(), payload);
    assert.deepEqual(
      [job.kind, job.priority, job.max_attempts, job.content_type, job.is_json],
      ['nightly', 7, 3, null, true],
    );
    const headers = JSON.parse(job.headers);
    assert.deepEqual(headers, {
      trace: 'x"y',
      'stint-schedule': name,
      'stint-fire-at': new Date(at / 1_000).toISOString().replace('Z', '000Z'),
    });
    assert.equal(job.size, Buffer.byteLength(payload) + Buffer.byteLength(job.headers));
    assert.equal(job.expires_at - job.created_at, 60_000);
    assert.ok(job.pos !== null, 'it is ready');
    assert.deepEqual(room.woken.ready, [await room.queueId(queue)]);
    const shown = await get();
    assert.deepEqual([shown.lastFire, shown.lastJob, shown.nextFire], [at, job.id, at + MINUTE]);
    const [counted] = await room.sql(
      'select sum(ready)::int as ready, sum(enqueued)::int as enqueued from queue_count where queue_id = $1',
      [job.queue_id],
    );
    assert.deepEqual(counted, { ready: 1, enqueued: 1 });
    assert.equal((await fireDue(room.engine)).counts.fired, 0);
  });

  test('of bytes makes jobs of the same bytes', async () => {
    const payloadBase64 = Buffer.from([0, 255, 10]);
    await put({ payloadBase64, contentType: 'image/png', every: undefined });
    await moveBack(0);
    await fireDue(room.engine);
    const [job] = await jobs();
    assert.deepEqual([job.payload, job.content_type, job.is_json], [payloadBase64, 'image/png', false]);
  });

  test('fires each instant that is on time, also where several have come', async () => {
    await put({ cron: '* * * * * *' });
    const [clock] = await room.sql(
      'select (extract(epoch from date_trunc($1, clock_timestamp())) * 1000000)::float8 as at',
      ['second'],
    );
    await room.sql(
      `update schedule set next_fire_at = timestamptz 'epoch' + $2::bigint * interval '1 microsecond', look_at = clock_timestamp() where name = $1`,
      [name, clock.at - 4 * SECOND],
    );
    const { fired, missed } = (await fireDue(room.engine)).counts;
    assert.ok(fired >= 5 && missed === 0);
    const instants = await instantsOf();
    assert.deepEqual(
      instants,
      instants.map((_, n) => clock.at - 4 * SECOND + n * SECOND),
    );
  });

  test('goes on from its anchor where it is regular', async () => {
    const startAt = Date.parse('2026-01-01T00:00:00.123Z') * 1_000;
    const { nextFire } = await put({ cron: undefined, every: 7_000, startAt });
    assert.equal((nextFire - startAt) % (7 * SECOND), 0);
    const at = await moveBack(7 * SECOND);
    await fireDue(room.engine);
    assert.deepEqual(await instantsOf(), [Math.floor(at / 1_000) * 1_000]);
    assert.equal((await get()).nextFire, nextFire);
  });

  test('rests when it has ended', async () => {
    const now = Date.now() * 1_000;
    await put({ endAt: now + 10 * MINUTE });
    await moveBack(0);
    await room.sql(`update schedule set end_at = next_fire_at + interval '1 microsecond' where name = $1`, [name]);
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
    const { nextFire, upcoming, error } = await get();
    assert.deepEqual([nextFire, upcoming, error], [undefined, [], undefined]);
  });
});

describe('after an absence of eight hours', () => {
  const SINCE = 8 * HOUR;

  test('once, the default, makes one job, of the latest instant, and counts the others', async () => {
    await put();
    const from = await moveBack(SINCE);
    const { counts } = await fireDue(room.engine);
    assert.deepEqual([counts.fired, counts.missed], [1, 480]);
    assert.deepEqual(await instantsOf(), [from + SINCE]);
    const { missed, nextFire } = await get();
    assert.deepEqual([missed, nextFire], [480, from + SINCE + MINUTE]);
  });

  test('skip makes none of what is late', async () => {
    await put({ misfire: 'skip', cron: '0 0 1 1 *' });
    await moveBack(SINCE);
    const { counts } = await fireDue(room.engine);
    assert.deepEqual([counts.fired, counts.missed], [0, 1]);
    assert.equal((await get()).lastFire, undefined);
  });

  test('all makes the latest hundred', async () => {
    await put({ misfire: 'all' });
    const from = await moveBack(SINCE);
    const { counts } = await fireDue(room.engine);
    assert.deepEqual([counts.fired, counts.missed], [100, 381]);
    assert.deepEqual(
      await instantsOf(),
      Array.from({ length: 100 }, (_, n) => from + SINCE - (99 - n) * MINUTE),
    );
  });

  test('a schedule of each second of a year is made up for in little time', async () => {
    await put({ misfire: 'all', cron: '* * * * * *' });
    await moveBack(365 * 24 * HOUR);
    const began = performance.now();
    const { counts } = await fireDue(room.engine);
    assert.ok(performance.now() - began < 3_000, `${performance.now() - began} ms`);
    assert.deepEqual([counts.fired, counts.missed], [100, 900]);
    const instants = await instantsOf();
    assert.equal(instants.at(-1)! - instants[0]!, 99 * SECOND);
  });

  test('large jobs are made up for in several rounds', async () => {
    await put({ misfire: 'all', payload: JSON.stringify('x'.repeat(250_000)) });
    await moveBack(HOUR);
    const counts: number[] = [];
    for (let again = true; again;) {
      const round = await fireDue(room.engine);
      counts.push(round.counts.fired);
      assert.equal(round.counts.missed, 0);
      again = round.again;
    }
    assert.deepEqual(counts, [33, 28]);
    assert.equal(new Set(await instantsOf()).size, 61);
  });

  test('a short absence is none: what is up to 15 s late is on time', async () => {
    await put({ misfire: 'skip', cron: undefined, every: 3_600_000 });
    await room.sql(
      `update schedule set anchor_at = late.at, next_fire_at = late.at, look_at = late.at
      from (select clock_timestamp() - interval '14 seconds' as at) late where name = $1`,
      [name],
    );
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
  });
});

describe('overlap skip', () => {
  test('passes over instants while the last job waits or runs, and says how many', async () => {
    await put({ overlap: 'skip' });
    await moveBack(0);
    await fireDue(room.engine);
    const [first] = await jobs();
    await moveBack(0);
    await room.sql('delete from schedule_fire');
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 0, missed: 0, skipped: 1, failed: 0 });
    assert.equal((await get()).skipped, 1);
    await room.sql('delete from ready where job_id = $1', [first.id]);
    await moveBack(0);
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
  });

  test('lets one of several missed instants through', async () => {
    await put({ overlap: 'skip', misfire: 'all' });
    await moveBack(5 * MINUTE);
    const { counts } = await fireDue(room.engine);
    assert.deepEqual([counts.fired, counts.skipped, counts.missed], [1, 5, 0]);
  });
});

describe('paused', () => {
  test('it fires nothing, and what passed meanwhile is not made up for', async () => {
    await put({ misfire: 'all' });
    await moveBack(HOUR);
    assert.equal((await room.call(pauseSchedule, { name })).nextFire, undefined);
    assert.equal((await fireDue(room.engine)).counts.fired, 0);
    const { nextFire, paused } = await room.call(resumeSchedule, { name });
    assert.equal(paused, false);
    assert.ok(nextFire > Date.now() * 1_000 - 5 * SECOND);
    assert.equal((await fireDue(room.engine)).counts.fired, 0);
  });

  test('it can be run by hand, once a call, and its instants stay', async () => {
    await put({ overlap: 'skip', headers: { own: '1' } });
    await room.call(pauseSchedule, { name });
    const one = await room.call(runSchedule, { name });
    const two = await room.call(runSchedule, { name });
    assert.notEqual(one.id, two.id);
    const made = await jobs();
    assert.deepEqual(
      made.map(({ headers }) => JSON.parse(headers)),
      [
        { own: '1', 'stint-schedule': name },
        { own: '1', 'stint-schedule': name },
      ],
    );
    const { lastJob, lastFire } = await get();
    assert.deepEqual([lastJob, lastFire], [two.id, undefined]);
  });
});

describe('a schedule that cannot fire', () => {
  /** Beside a sound one, which fires whatever the other does. */
  async function failsBesides(sound: string): Promise<any> {
    await room.call(putSchedule, { name: sound, cron: '* * * * *', queue: `${sound}-queue` });
    await moveBack(0, sound);
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 1, missed: 0, skipped: 0, failed: 1 });
    return get();
  }

  test('for its zone, which is known no more, says so, is tried later and later, and stops no other', async () => {
    await put();
    await moveBack(0);
    await room.sql(`update schedule set time_zone = 'Mars/Olympus' where name = $1`, [name]);
    const { error, upcoming } = await failsBesides(`${name}-sound`);
    assert.match(error.message, /timeZone/);
    assert.equal(error.failures, 1);
    assert.deepEqual(upcoming.length, 0);
    const first = error.retryAt - error.at;
    assert.ok(Math.abs(first - 5 * SECOND) < SECOND);
    assert.equal((await fireDue(room.engine)).counts.failed, 0, 'not looked at before its time');
    await lookAgain();
    await fireDue(room.engine);
    const second = (await get()).error;
    assert.equal(second.failures, 2);
    assert.ok(Math.abs(second.retryAt - second.at - 10 * SECOND) < SECOND);
    await room.sql(`update schedule set failures = 1000 where name = $1`, [name]);
    await lookAgain();
    await fireDue(room.engine);
    const last = (await get()).error;
    assert.ok(Math.abs(last.retryAt - last.at - 10 * MINUTE) < SECOND);
  });

  test('for its queue, which is gone and may not be made, fires when there is one again', async () => {
    const tenant = { ...room.tenant, id: randomUUID(), autoCreateQueues: false };
    await room.sql('insert into tenant (id, name, auto_create_queues) values ($1, $2, false)', [tenant.id, tenant.id]);
    await room.call(putQueue, { queue }, tenant);
    await put({}, tenant);
    await room.call(deleteQueue, { queue, force: true }, tenant);
    await moveBack(0);
    await room.call(putSchedule, { name: `${name}-sound`, cron: '* * * * *', queue: `${queue}-sound` });
    await moveBack(0, `${name}-sound`);
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 1, missed: 0, skipped: 0, failed: 1 });
    assert.match((await get(tenant)).error.message, /no queue/);
    await room.call(putQueue, { queue }, tenant);
    await lookAgain();
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
    assert.equal((await get(tenant)).error, undefined);
  });

  test('a queue that was deleted is made again where that is allowed', async () => {
    await put();
    await room.call(deleteQueue, { queue, force: true });
    await moveBack(0);
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
    assert.equal((await room.sql('select 1 from ready where queue_id = $1', [await room.queueId(queue)])).length, 1);
  });

  test('for its queue, which is full', async () => {
    await room.call(putQueue, { queue, maxBacklog: 1 });
    await put();
    await room.call(runSchedule, { name });
    await moveBack(0);
    const { error } = await failsBesides(`${name}-sound`);
    assert.match(error.message, /maxBacklog/);
    assert.equal((await jobs()).length, 1);
  });

  test('for its tenant, which may store no more', async () => {
    const tenant = { ...room.tenant, id: randomUUID() };
    await room.sql(`insert into tenant (id, name, limits) values ($1, $2, '{"storedJobs": 2}')`, [
      tenant.id,
      tenant.id,
    ]);
    for (const n of [1, 2, 3]) {
      await room.call(putSchedule, { name: `${name}-${n}`, cron: '* * * * *', queue }, tenant);
      await moveBack(0, `${name}-${n}`);
    }
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 2, missed: 0, skipped: 0, failed: 1 });
  });

  test('for a fault that nobody has foreseen, whether the service meets it or the database', async () => {
    await put();
    await moveBack(0);
    await room.sql('update schedule set expires_after = 9000000000000000000 where name = $1', [name]);
    await room.call(putSchedule, { name: `${name}-odd`, cron: '* * * * *', queue });
    await moveBack(0, `${name}-odd`);
    await room.sql(
      `update schedule set misfire = 'odd', next_fire_at = next_fire_at - interval '1 hour' where name = $1`,
      [`${name}-odd`],
    );
    for (const n of [1, 2, 3, 4, 5]) {
      await room.call(putSchedule, { name: `${name}-sound-${n}`, cron: '* * * * *', queue });
      await moveBack(0, `${name}-sound-${n}`);
    }
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 5, missed: 0, skipped: 0, failed: 2 });
    assert.equal((await get()).error.message, 'internal error');
  });

  test('a suspended tenant’s schedules rest, and are made up for by their policy when it is back', async () => {
    const tenant = { ...room.tenant, id: randomUUID() };
    await room.sql('insert into tenant (id, name, suspended_at) values ($1, $2, now())', [tenant.id, tenant.id]);
    await put({}, tenant);
    await moveBack(HOUR);
    assert.deepEqual((await fireDue(room.engine)).counts, { fired: 0, missed: 0, skipped: 0, failed: 0 });
    await room.sql('update tenant set suspended_at = null where id = $1', [tenant.id]);
    await lookAgain();
    const { counts } = await fireDue(room.engine);
    assert.deepEqual([counts.fired, counts.missed], [1, 60]);
  });
});

describe('a change', () => {
  test('of something else than the timing keeps an instant that is due', async () => {
    await put();
    const at = await moveBack(0);
    assert.equal((await put({ kind: 'other' })).nextFire, at);
    assert.equal((await fireDue(room.engine)).counts.fired, 1);
    assert.equal((await jobs())[0].kind, 'other');
  });

  test('of the timing begins anew from now', async () => {
    await put();
    await moveBack(HOUR);
    const { nextFire } = await put({ cron: '*/2 * * * *' });
    assert.ok(nextFire > Date.now() * 1_000 - 5 * SECOND);
  });

  test('that changes nothing changes nothing', async () => {
    const one = await put({ cron: undefined, every: 60_000, payload: '1' });
    const two = await put({ cron: undefined, every: 60_000, payload: '1' });
    assert.deepEqual(two, one);
  });
});

test('schedules go with their tenant', async () => {
  const tenant = { ...room.tenant, id: randomUUID() };
  await room.sql('insert into tenant (id, name) values ($1, $2)', [tenant.id, tenant.id]);
  await put({}, tenant);
  await moveBack(0);
  await fireDue(room.engine);
  await moveBack(0);
  await room.sql('update tenant set closed_at = now() where id = $1', [tenant.id]);
  assert.equal((await fireDue(room.engine)).counts.fired, 0, 'it does not fire any more');
  const { counts } = await createDeleteTenants().run(room.engine);
  assert.equal(counts['schedules'], 1);
  assert.deepEqual(await room.sql('select 1 from schedule where tenant_id = $1', [tenant.id]), []);
});

describe('ten thousand schedules due at the same instant', () => {
  const MANY = 10_000;

  test('are fired within 10 s in bounded batches, each once, by two that race, and one that is broken stops none', async () => {
    await room.call(putQueue, { queue });
    await room.sql(
      `insert into schedule (id, tenant_id, name, cron, time_zone, anchor_at, misfire, overlap, queue, is_json, rank, size, payload,
        next_fire_at, look_at)
      select gen_random_uuid(), $1, $2 || '-' || n, case when n = 77 then 'broken' else '0 ' || n % 24 || ' * * *' end, 'Europe/Kyiv', now(), 'once', 'allow', $3,
        true, 0, 100, '{"n":1}', at, at
      from generate_series(1, $4::int) as n, (select clock_timestamp() as at) clock`,
      [room.tenant.id, name, queue, MANY],
    );
    const began = performance.now();
    let largest = 0;
    const drain = async () => {
      let fired = 0;
      for (let again = true; again;) {
        const round = await fireDue(room.engine);
        largest = Math.max(largest, round.counts.fired);
        fired += round.counts.fired;
        again = round.again;
      }
      return fired;
    };
    const fired = await Promise.all([drain(), drain()]);
    const took = performance.now() - began;
    assert.ok(took < 10_000, `${took} ms`);
    assert.equal(fired[0] + fired[1] + (await drain()), MANY - 1);
    assert.ok(largest <= 500, `${largest} jobs in one statement`);
    const [{ n }] = (await room.sql('select count(*)::int as n from ready where queue_id = $1', [
      await room.queueId(queue),
    ])) as [{ n: number }];
    assert.equal(n, MANY - 1);
    const failed = await room.sql('select name, error from schedule where error is not null and name like $1', [
      `${name}-%`,
    ]);
    assert.equal(failed.length, 1);
    assert.match(failed[0].error, /five fields/);
  });
});

test('two that fire at the same time make one job of each instant', async () => {
  const names = Array.from({ length: 20 }, (_, n) => `${name}-${n}`);
  for (const each of names)
    await room.call(putSchedule, { name: each, cron: undefined, every: 1_000, queue, misfire: 'all' });
  let done = false;
  const hammer = async () => {
    while (!done) await fireDue(room.engine);
  };
  const racing = [hammer(), hammer(), hammer()];
  for (let round = 0; round < 15; round += 1) {
    await room.sql(
      `update schedule set next_fire_at = next_fire_at - interval '1 second', look_at = next_fire_at - interval '1 second' where name = any($1)`,
      [names],
    );
  }
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  done = true;
  await Promise.all(racing);
  const fires = await jobs();
  const known = fires.map(({ headers, fire_at: at }) => `${JSON.parse(headers)['stint-schedule']} ${at}`);
  assert.equal(new Set(known).size, known.length);
  assert.ok(known.length >= 20);
});

test('what has fired long ago is forgotten with the next fire', async () => {
  await put();
  const [{ id }] = (await room.sql('select id from schedule where name = $1', [name])) as [{ id: string }];
  await room.sql(
    `insert into schedule_fire (schedule_id, fire_at, job_id)
    select $1, now() - n * interval '1 minute', gen_random_uuid() from generate_series(55, 200, 5) as n`,
    [id],
  );
  await moveBack(0);
  await fireDue(room.engine);
  const left = await room.sql('select fire_at from schedule_fire where schedule_id = $1', [id]);
  assert.equal(left.length, 2);
});
