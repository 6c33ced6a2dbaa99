import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Endpoint, startEndpoint, verified } from '../events/endpoint.js';
import { letDie, LOCAL } from '../events/room.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, invalid, NOT_FOUND } from './jobs.js';

let service: TestService;
let client: Client;
let endpoint: Endpoint;

before(async () => {
  service = await startTestService(LOCAL);
  client = await service.tenant();
  endpoint = await startEndpoint();
});
after(async () => {
  await endpoint.close();
  await service.stop();
});

const URL_OF_NOBODY = 'https://hooks.invalid/stint?key=hidden';
const BARE = { url: URL_OF_NOBODY, events: ['job.dead'] };
const NOTHING_YET = { waiting: 0, delivered: 0, dead: 0, dropped: 0, failures: 0 };

test('a webhook put with what it needs shows every default, and its secret once', async () => {
  const made = await client.put('/v1/webhooks/plain', BARE);
  assert.equal(made.status, 201, made.text);
  const { secret, createdAt, updatedAt, ...shown } = made.body;
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.match(createdAt, /Z$/);
  assert.match(updatedAt, /Z$/);
  assert.deepEqual(shown, {
    name: 'plain',
    ...BARE,
    includePayload: false,
    maxInFlight: 4,
    paused: false,
    disabled: false,
    delivery: NOTHING_YET,
  });
  const read = await client.get('/v1/webhooks/plain');
  assert.deepEqual(read.body, { ...shown, createdAt, updatedAt });
  const again = await client.put('/v1/webhooks/plain', BARE);
  assert.deepEqual([again.status, again.body.secret], [200, undefined]);
});

test('a put says the whole of a webhook, but for whether it is paused', async () => {
  const whole = {
    url: 'https://hooks.invalid:8443/',
    events: ['job.dead', 'queue.backlog', 'schedule.failed'],
    queues: ['billing-*', 'mail'],
    backlog: { depth: 1_000, oldestAge: '300s' },
    includePayload: true,
    maxInFlight: 64,
    paused: true,
  };
  const put = await client.put('/v1/webhooks/whole', whole);
  const { secret, createdAt, updatedAt, ...shown } = put.body;
  assert.match(secret, /^whsec_/);
  assert.ok(createdAt <= updatedAt);
  assert.deepEqual(shown, { name: 'whole', ...whole, disabled: false, delivery: NOTHING_YET });
  const bare = (await client.put('/v1/webhooks/whole', BARE)).body;
  assert.deepEqual(
    [bare.queues, bare.backlog, bare.includePayload, bare.maxInFlight, bare.paused],
    [undefined, undefined, false, 4, true],
  );
});

test('what cannot be a webhook is refused, naming the field', async () => {
  for (const [fields, field, says] of [
    [{ url: 'http://hooks.example/' }, 'url', undefined],
    [{ url: 'ftp://hooks.example/' }, 'url', /https/],
    [{ url: 'nonsense' }, 'url', /URL/],
    [{ url: 'https://me:secret@hooks.example/' }, 'url', /user name/],
    [{ url: 'https://10.0.0.1/' }, 'url', /public/],
    [{ url: 'https://0xa000001/' }, 'url', /public/],
    [{ url: 'https://[::ffff:169.254.169.254]/' }, 'url', /public/],
    [{ url: `https://hooks.example/${'x'.repeat(2_048)}` }, 'url', /2048/],
    [{ events: [] }, 'events', /1/],
    [{ events: ['job.completed'] }, 'events[0]', /job\.dead/],
    [{ events: ['job.dead', 'job.dead'] }, 'events', undefined],
    [{ queues: ['a b'] }, 'queues[0]', undefined],
    [{ events: ['queue.backlog'] }, 'backlog', /depth or oldestAge/],
    [{ events: ['queue.backlog'], backlog: {} }, 'backlog', /depth or oldestAge/],
    [{ backlog: { depth: 1 } }, 'backlog', /queue\.backlog/],
    [{ events: ['queue.backlog'], backlog: { depth: 0 } }, 'backlog.depth', /at least 1/],
    [{ events: ['queue.backlog'], backlog: { oldestAge: '999ms' } }, 'backlog.oldestAge', /at least 1s/],
    [{ maxInFlight: 0 }, 'maxInFlight', /at least 1/],
    [{ maxInFlight: 65 }, 'maxInFlight', /at most 64/],
  ] as const) {
    const answer = await client.put('/v1/webhooks/wrong', { ...BARE, ...fields });
    if (field === 'url' && says === undefined) assert.equal(answer.status, 201, 'a name may lead to what is allowed');
    else assertProblem(answer, says === undefined ? invalid(field) : { ...invalid(field), says });
    assert.ok(!answer.text.includes('secret@'));
  }
  await client.delete('/v1/webhooks/wrong');
});

test('lists are by name, page by page, without secrets', async () => {
  const own = await service.tenant();
  for (const name of ['c', 'a', 'b']) await own.put(`/v1/webhooks/${name}`, BARE);
  const first = (await own.get('/v1/webhooks?limit=2')).body;
  const second = (await own.get(`/v1/webhooks?limit=2&cursor=${first.nextCursor}`)).body;
  const names = [first, second].map(({ webhooks }) => webhooks.map(({ name }: { name: string }) => name));
  assert.deepEqual(names, [['a', 'b'], ['c']]);
  assert.equal(second.nextCursor, undefined);
  assert.doesNotMatch(JSON.stringify([first, second]), /whsec_/);
});

test('what is deleted is gone', async () => {
  await client.put('/v1/webhooks/gone', BARE);
  assert.deepEqual((await client.delete('/v1/webhooks/gone')).body, { name: 'gone' });
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['POST', '/rotate'],
    ['POST', '/test'],
  ] as const)
    assertProblem(
      await client.request(method, `/v1/webhooks/gone${path}`, method === 'POST' ? {} : undefined),
      NOT_FOUND,
    );
});

test('a test delivers an event at once, signed, also while the webhook is paused, and tells what came of it', async () => {
  const { secret } = (await client.put('/v1/webhooks/tried', { ...BARE, url: endpoint.url, paused: true })).body;
  const good = await client.post('/v1/webhooks/tried/test');
  assert.equal(good.status, 200, good.text);
  const { latency, ...told } = good.body;
  assert.deepEqual(told, { delivered: true, status: 200 });
  assert.match(latency, /^\d+(\.\d+)?s$/);
  const event = verified(secret, endpoint.received.at(-1)!);
  assert.deepEqual([event.type, event.data], ['webhook.test', { webhook: 'tried' }]);
  endpoint.answers(503);
  const bad = (await client.post('/v1/webhooks/tried/test')).body;
  assert.deepEqual([bad.delivered, bad.status, bad.error], [false, 503, 'status 503']);
  endpoint.answers(200);
  await client.put('/v1/webhooks/tried', { ...BARE, url: 'https://127.0.0.1:1/' });
  const away = (await client.post('/v1/webhooks/tried/test')).body;
  assert.deepEqual([away.delivered, away.status, away.error], [false, undefined, 'not reachable']);
  assert.deepEqual((await client.get('/v1/webhooks/tried')).body.delivery, NOTHING_YET);
  await client.delete('/v1/webhooks/tried');
});

test('a rotation answers a new secret, and until when the one before signs too', async () => {
  const { secret } = (await client.put('/v1/webhooks/rotated', { ...BARE, url: endpoint.url, paused: true })).body;
  const { body } = await client.post('/v1/webhooks/rotated/rotate', { overlap: '1h' });
  assert.notEqual(body.secret, secret);
  assert.ok(Date.parse(body.previousSecretUntil) - Date.now() > 3_500_000);
  await client.post('/v1/webhooks/rotated/test');
  for (const each of [secret, body.secret]) verified(each, endpoint.received.at(-1)!);
  const last = (await client.post('/v1/webhooks/rotated/rotate', { overlap: '0s' })).body;
  assert.equal(last.previousSecretUntil, undefined);
  await client.post('/v1/webhooks/rotated/test');
  verified(last.secret, endpoint.received.at(-1)!);
  assert.throws(() => verified(body.secret, endpoint.received.at(-1)!));
  await client.delete('/v1/webhooks/rotated');
});

test('a death is told within seconds by a service that works by itself', async () => {
  const { secret } = (await client.put('/v1/webhooks/live', { ...BARE, url: endpoint.url, queues: ['live'] })).body;
  const before = endpoint.received.length;
  const [jobId] = await letDie(client, 'live');
  await until('it has arrived', () => endpoint.received.length > before, 20_000);
  assert.equal(verified(secret, endpoint.received.at(-1)!).data.jobId, jobId);
  await until('that is known', async () => (await client.get('/v1/webhooks/live')).body.delivery.delivered === 1);
  await client.delete('/v1/webhooks/live');
});

test('a tenant may have 100 webhooks', async () => {
  const own = await service.tenant();
  for (let n = 0; n < 100; n += 1) assert.equal((await own.put(`/v1/webhooks/w${n}`, BARE)).status, 201);
  assertProblem(await own.put('/v1/webhooks/w100', BARE), { status: 429, code: 'QUOTA_EXCEEDED' });
  assert.equal((await own.put('/v1/webhooks/w7', BARE)).status, 200);
});

test('lists for a key that is bound to queues leave out what tells of others', async () => {
  const own = await service.tenant();
  const made = await own.post('/v1/keys', { name: 'bound', scopes: ['read', 'manage'], queues: ['billing-*'] });
  const bound = clientFor(service.base, made.body.secret as string);
  await own.put('/v1/webhooks/all', BARE);
  await own.put('/v1/webhooks/mixed', { ...BARE, queues: ['billing-a', 'mail'] });
  await own.put('/v1/webhooks/within', { ...BARE, queues: ['billing-a*'] });
  const { webhooks } = (await bound.get('/v1/webhooks')).body;
  assert.deepEqual(
    webhooks.map(({ name }: { name: string }) => name),
    ['within'],
  );
  for (const name of ['all', 'mixed']) {
    assertProblem(await bound.get(`/v1/webhooks/${name}`), NOT_FOUND);
    assertProblem(await bound.put(`/v1/webhooks/${name}`, { ...BARE, queues: ['billing-a'] }), NOT_FOUND);
  }
  assertProblem(await bound.put('/v1/webhooks/new', BARE), {
    status: 403,
    code: 'PERMISSION_DENIED',
    fields: ['queues'],
  });
});

test('the tenant of the deliveries is nobody’s to see, by list, name or id', async () => {
  const id = '00000000-0000-0000-0000-000000000000';
  const { body } = await service.admin.get('/v1/admin/tenants?limit=1000');
  assert.ok(body.tenants.every((tenant: { id: string }) => tenant.id !== id));
  for (const [method, path] of [
    ['GET', ''],
    ['DELETE', ''],
    ['PATCH', ''],
    ['POST', '/suspend'],
    ['GET', '/keys'],
  ] as const)
    assertProblem(
      await service.admin.request(
        method,
        `/v1/admin/tenants/${id}${path}`,
        method === 'PATCH' ? { autoCreateQueues: true } : undefined,
      ),
      NOT_FOUND,
    );
  const key = await service.admin.post(`/v1/admin/tenants/${id}/keys`, { name: 'k', scopes: ['read'] });
  assertProblem(key, NOT_FOUND);
});
