import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, CONFLICT, get, invalid, leaseOne, NOT_FOUND, putQueue } from './jobs.js';

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant();
});
after(() => service.stop());

const SELDOM = { cron: '0 5 1 1 *', queue: 'q' };

async function put(name: string, fields: object = SELDOM, as = client): Promise<any> {
  const answer = await as.put(`/v1/schedules/${name}`, fields);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

const instant = (text: string): number => Date.parse(text);

test('a schedule put with little shows every default, its state and its next five runs', async () => {
  const body = await put('plain', { cron: '0 5 * * *', queue: 'plain-queue' });
  const { createdAt, updatedAt, nextFire, upcoming, ...shown } = body;
  assert.equal(createdAt, updatedAt);
  assert.deepEqual(shown, {
    name: 'plain',
    cron: '0 5 * * *',
    timeZone: 'UTC',
    queue: 'plain-queue',
    contentType: 'application/json',
    priority: 0,
    headers: {},
    misfire: 'once',
    overlap: 'allow',
    paused: false,
    missed: 0,
    skipped: 0,
  });
  assert.equal(upcoming.length, 5);
  assert.equal(upcoming[0].at, nextFire);
  for (const { at, local } of upcoming) {
    assert.match(at, /T05:00:00\.000000Z$/);
    assert.match(local, /T05:00:00\+00:00$/);
  }
  assert.deepEqual((await client.get('/v1/schedules/plain')).body, body);
  assert.equal((await client.get('/v1/queues/plain-queue')).status, 200, 'its queue is made');
});

test('everything that is given is shown as it was given', async () => {
  const payload = { b: 1, a: [null, 'é'] };
  const given = {
    every: '90s',
    timeZone: 'Europe/Kyiv',
    startAt: '2026-01-01T00:00:00.000001Z',
    endAt: '2090-01-01T00:00:00.000000Z',
    queue: 'q',
    kind: 'k',
    payload,
    contentType: 'application/vnd.acme+json',
    priority: -5,
    maxAttempts: 9,
    retry: { type: 'fixed', delays: ['1s'], jitter: 0 },
    visibilityTimeout: '12s',
    headers: { a: 'b' },
    expiresAfter: '3600s',
    misfire: 'all',
    overlap: 'skip',
    paused: true,
  };
  const shown = await put('whole', given);
  for (const [name, value] of Object.entries(given)) assert.deepEqual(shown[name], value, name);
  assert.deepEqual([shown.nextFire, shown.upcoming ?? []], [undefined, []]);
});

test('a put replaces the whole, but for whether it is paused', async () => {
  await put('replaced', { ...SELDOM, kind: 'k', payload: 1, overlap: 'skip' });
  await client.post('/v1/schedules/replaced/pause');
  const shown = await put('replaced', { every: '1h', queue: 'q' });
  assert.deepEqual(
    [shown.cron, shown.kind, shown.payload, shown.overlap, shown.paused],
    [undefined, undefined, undefined, 'allow', true],
  );
  assert.equal((await put('replaced', { every: '1h', queue: 'q', paused: false })).paused, false);
});

test('bytes are kept as bytes', async () => {
  const fields = { ...SELDOM, payloadBase64: 'AP8K', contentType: 'image/png' };
  const shown = await put('bytes', fields);
  assert.deepEqual([shown.payloadBase64, shown.contentType, shown.payload], ['AP8K', 'image/png', undefined]);
});

describe('what is wrong is refused, naming the field', () => {
  const bounds: [string, object, string, RegExp][] = [
    ['no queue', { cron: '* * * * *', queue: '' }, 'queue', /./],
    ['an unknown field', { ...SELDOM, delay: '1s' }, 'delay', /not a known field/],
    ['a cron that is none', { cron: '61 * * * *', queue: 'q' }, 'cron', /minute: 61/],
    ['seven fields', { cron: '0 0 0 1 1 * 2030', queue: 'q' }, 'cron', /five fields/],
    ['a name that is none', { cron: '@noon', queue: 'q' }, 'cron', /@daily/],
    ['what never comes', { cron: '0 0 30 2 *', queue: 'q' }, 'cron', /never/],
    ['what never comes, in a zone', { cron: '0 0 31 4 *', timeZone: 'America/Santiago', queue: 'q' }, 'cron', /never/],
    ['an unknown zone', { ...SELDOM, timeZone: 'Mars/Olympus' }, 'timeZone', /IANA/],
    ['an offset for a zone', { ...SELDOM, timeZone: '+03:00' }, 'timeZone', /IANA/],
    ['an end in the past', { ...SELDOM, endAt: '2020-01-01T00:00:00Z' }, 'endAt', /after now/],
    [
      'an end before the start',
      { ...SELDOM, startAt: '2080-01-01T00:00:00Z', endAt: '2070-01-01T00:00:00Z' },
      'endAt',
      /after startAt/,
    ],
    [
      'an end before the first run',
      { cron: '0 5 1 1 *', startAt: '2080-01-02T00:00:00Z', endAt: '2080-02-01T00:00:00Z', queue: 'q' },
      'endAt',
      /first run/,
    ],
    ['less than a second', { every: '999ms', queue: 'q' }, 'every', /at least 1s/],
    ['more than a year', { every: '367d', queue: 'q' }, 'every', /at most 366d/],
    ['a misfire that is none', { ...SELDOM, misfire: 'twice' }, 'misfire', /one of/],
    ['an overlap that is none', { ...SELDOM, overlap: 'wait' }, 'overlap', /one of/],
    ['a payload of the wrong type', { ...SELDOM, payload: 1, contentType: 'text/plain' }, 'payload', /./],
    ['a header that the schedule sets', { ...SELDOM, headers: { 'Stint-Schedule': 'x' } }, 'headers', /sets itself/],
    ['attempts out of bounds', { ...SELDOM, maxAttempts: 1001 }, 'maxAttempts', /at most 1000/],
  ];
  for (const [what, fields, field, says] of bounds) {
    test(what, async () => {
      const began = performance.now();
      assertProblem(await client.put('/v1/schedules/refused', fields), invalid(field, says));
      assert.ok(performance.now() - began < 2_000);
      assertProblem(await client.get('/v1/schedules/refused'), NOT_FOUND);
    });
  }

  test('neither cron nor every, and both of them', async () => {
    const both = { ...invalid('cron'), fields: ['cron', 'every'] };
    assertProblem(await client.put('/v1/schedules/refused', { queue: 'q' }), both);
    assertProblem(await client.put('/v1/schedules/refused', { ...SELDOM, every: '1h' }), both);
    assertProblem(await client.post('/v1/schedules/preview', {}), both);
  });

  test('a name that is none', async () => {
    assertProblem(await client.put('/v1/schedules/-x', SELDOM), invalid('name'));
    assertProblem(await client.put(`/v1/schedules/${'n'.repeat(81)}`, SELDOM), invalid('name'));
  });

  test('a payload larger than its queue takes', async () => {
    await putQueue(client, 'small', { maxPayloadBytes: 3 });
    const answer = await client.put('/v1/schedules/refused', { ...SELDOM, queue: 'small', payload: '12' });
    assert.deepEqual([answer.status < 500, answer.body.code], [true, 'PAYLOAD_TOO_LARGE']);
  });
});

test('previews ten runs in UTC and local time, over a change of the clocks, and stores nothing', async () => {
  const answer = await client.post('/v1/schedules/preview', {
    cron: '30 2 * * *',
    timeZone: 'America/New_York',
    startAt: '2080-03-08T00:00:00Z',
  });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.body.runs.length, 10);
  assert.deepEqual(answer.body.runs.slice(1, 4), [
    { at: '2080-03-09T07:30:00.000000Z', local: '2080-03-09T02:30:00-05:00' },
    { at: '2080-03-10T07:00:00.000000Z', local: '2080-03-10T03:00:00-04:00' },
    { at: '2080-03-11T06:30:00.000000Z', local: '2080-03-11T02:30:00-04:00' },
  ]);
  const few = await client.post('/v1/schedules/preview', {
    every: '1h',
    startAt: '2080-01-01T00:00:00Z',
    endAt: '2080-01-01T02:00:00Z',
  });
  assert.deepEqual(
    few.body.runs.map(({ at }: { at: string }) => at),
    ['2080-01-01T00:00:00.000000Z', '2080-01-01T01:00:00.000000Z'],
  );
  assertProblem(await client.post('/v1/schedules/preview', { cron: '0 0 30 2 *' }), invalid('cron', /never/));
});

test('fires by itself, and its jobs say which schedule and instant they are of', async () => {
  const { nextFire } = await put('ticking', { every: '1s', queue: 'ticking', kind: 'tick', payload: [1] });
  const job = await leaseOne(client, 'ticking', { wait: '20s' });
  assert.deepEqual([job.kind, job.payload], ['tick', [1]]);
  assert.equal(job.headers['stint-schedule'], 'ticking');
  assert.equal(job.headers['stint-fire-at'], nextFire);
  const shown = await until('the next has come', async () => {
    const { body } = await client.get('/v1/schedules/ticking');
    return instant(body.lastFire) > instant(nextFire) ? body : undefined;
  });
  assert.equal((await get(client, shown.lastJob)).headers['stint-fire-at'], shown.lastFire);
  assert.equal((await client.delete('/v1/schedules/ticking')).body.name, 'ticking');
  assertProblem(await client.get('/v1/schedules/ticking'), NOT_FOUND);
});

test('runs by hand, as often as it is asked', async () => {
  await put('by-hand', { ...SELDOM, queue: 'by-hand', kind: 'k', priority: 3 });
  const answer = await client.post('/v1/schedules/by-hand/run');
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual([answer.body.state, answer.body.deduplicated], ['ready', false]);
  const job = await get(client, answer.body.id);
  assert.deepEqual(
    [job.queue, job.kind, job.priority, job.headers],
    ['by-hand', 'k', 3, { 'stint-schedule': 'by-hand' }],
  );
  assert.notEqual((await client.post('/v1/schedules/by-hand/run')).body.id, answer.body.id);
  assertProblem(await client.post('/v1/schedules/nowhere/run'), NOT_FOUND);
});

test('pausing and resuming may be repeated', async () => {
  await put('resting');
  for (const verb of ['pause', 'pause', 'resume', 'resume']) {
    const answer = await client.post(`/v1/schedules/resting/${verb}`);
    assert.equal(answer.status, 200);
    assert.equal(answer.body.paused, verb === 'pause');
    assert.equal(answer.body.nextFire === undefined, verb === 'pause');
  }
});

test('resuming what would never fire again is a conflict', async () => {
  await put('over', { ...SELDOM, paused: true });
  await service.sql(`update stint.schedule set end_at = now() where name = 'over'`);
  assertProblem(await client.post('/v1/schedules/over/resume'), CONFLICT);
});

test('schedules are listed by name, in pages, without payloads', async () => {
  const own = await service.tenant();
  for (const name of ['b', 'a', 'C', 'd']) await put(name, { ...SELDOM, payload: 'secret' }, own);
  const first = (await own.get('/v1/schedules?limit=3')).body;
  const second = (await own.get(`/v1/schedules?limit=3&cursor=${first.nextCursor}`)).body;
  const all = [...first.schedules, ...second.schedules];
  assert.deepEqual(
    all.map(({ name }) => name),
    ['C', 'a', 'b', 'd'],
  );
  assert.equal(second.nextCursor, undefined);
  for (const each of all) assert.deepEqual([each.payload, each.upcoming ?? []], [undefined, []]);
});

test('a tenant that makes no queues by itself must have the queue', async () => {
  const strict = await service.tenant({ autoCreateQueues: false });
  assertProblem(await strict.put('/v1/schedules/s', SELDOM), NOT_FOUND);
  await putQueue(strict, 'q');
  await put('s', SELDOM, strict);
});

test('a tenant has as many schedules as its limit says', async () => {
  const limited = await service.tenant({ name: 'few-schedules' });
  const changed = await service.admin.patch('/v1/admin/tenants/few-schedules', { limits: { schedules: 2 } });
  assert.equal(changed.status, 200, changed.text);
  await until('it is known', async () => (await limited.get('/v1/tenant')).body.limits.schedules === 2);
  const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => limited.put(`/v1/schedules/${name}`, SELDOM)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 429, 429]);
  assert.equal(answers.find(({ status }) => status === 429)!.body.code, 'QUOTA_EXCEEDED');
  const { schedules } = (await limited.get('/v1/schedules')).body;
  assert.equal((await limited.get('/v1/tenant')).body.schedules, 2);
  await put(schedules[0].name, { ...SELDOM, kind: 'changed' }, limited);
  await limited.delete(`/v1/schedules/${schedules[0].name}`);
  await put('other', SELDOM, limited);
});

test('a key that is bound to queues sees the schedules of these alone', async () => {
  const own = await service.tenant();
  const made = await own.post('/v1/keys', { name: 'bound', scopes: ['manage', 'read'], queues: ['billing-*'] });
  const bound = clientFor(own.base, made.body.secret as string);
  await put('theirs', { ...SELDOM, queue: 'orders' }, own);
  await put('mine', { ...SELDOM, queue: 'billing-a' }, own);
  assert.deepEqual(
    (await bound.get('/v1/schedules')).body.schedules.map(({ name }: { name: string }) => name),
    ['mine'],
  );
  assertProblem(await bound.put('/v1/schedules/theirs', { ...SELDOM, queue: 'billing-a' }), NOT_FOUND);
  assert.equal((await own.get('/v1/schedules/theirs')).body.queue, 'orders');
});
