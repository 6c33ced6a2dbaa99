import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { TENANT_LIMIT_NAMES } from '../../src/core/limits.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, at, enqueue, get, invalid, leased, NOT_FOUND, settleOk, UNKNOWN_ID } from './jobs.js';

const SUSPENDED = { status: 403, code: 'PERMISSION_DENIED', says: /suspended/ };
const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
/** Each limit, and the most that it may be; the least is 1. */
const LIMITS = {
  requestsPerSecond: 1_000_000,
  jobsPerSecond: 1_000_000,
  payloadBytes: 2 * 1024 * 1024,
  parkedLeases: 1_000_000,
  streams: 1_000_000,
  storedJobs: 1_000_000_000,
  queues: 1_000_000,
  schedules: 1_000_000,
};
const EVERY = Object.fromEntries(Object.keys(LIMITS).map((name, index) => [name, 1_000 + index]));

test('every limit there is is one of these', () => {
  assert.deepEqual(Object.keys(LIMITS), TENANT_LIMIT_NAMES);
});

let service: TestService;
let admin: Client;
let made = 0;

before(async () => {
  service = await startTestService();
  admin = service.admin;
});
after(() => service.stop());

async function newTenant(fields: object = {}): Promise<any> {
  const answer = await admin.post('/v1/admin/tenants', { name: `tenant-${++made}`, ...fields });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

const pathOf = (tenant: string): string => `/v1/admin/tenants/${tenant}`;

describe('a new tenant', () => {
  test('is active, makes queues by itself and has no limits, unless it is said otherwise', async () => {
    const plain = await newTenant();
    assert.deepEqual([plain.state, plain.autoCreateQueues, plain.limits], ['active', true, {}]);
    assert.ok(Math.abs(at(plain.createdAt) - Date.now()) < 60_000);
    const other = await newTenant({ autoCreateQueues: false, limits: EVERY });
    assert.deepEqual([other.autoCreateQueues, other.limits], [false, EVERY]);
    assert.deepEqual((await admin.get(pathOf(other.name))).body, other);
  });

  test('has limits within their bounds, and no others', async () => {
    for (const [name, most] of Object.entries(LIMITS)) {
      for (const value of [1, most])
        assert.deepEqual((await newTenant({ limits: { [name]: value } })).limits, { [name]: value });
      for (const value of [0, -1, most + 1, 1.5, '5', null]) {
        const answer = await admin.post('/v1/admin/tenants', { name: 'x', limits: { [name]: value } });
        assertProblem(answer, invalid(`limits.${name}`));
      }
    }
    const answer = await admin.post('/v1/admin/tenants', { name: 'x', limits: { schedulez: 1 } });
    assertProblem(answer, invalid('limits.schedulez', /not a known field/));
  });

  test('of two that are made at once under one name, one is', async () => {
    const both = await Promise.all([1, 2].map(() => admin.post('/v1/admin/tenants', { name: 'at-once' })));
    assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409]);
  });

  test('is listed with the others, oldest first, page by page', async () => {
    await Promise.all(Array.from({ length: 5 }, () => newTenant()));
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const { body } = await admin.get(`/v1/admin/tenants?limit=3${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      assert.ok(body.tenants.length > 0 && body.tenants.length <= 3);
      ids.push(...body.tenants.map(({ id }: { id: string }) => id));
      cursor = body.nextCursor as string | undefined;
    } while (cursor !== undefined);
    assert.deepEqual(
      ids,
      (await admin.get('/v1/admin/tenants?limit=1000')).body.tenants.map(({ id }: { id: string }) => id),
    );
    assert.deepEqual([...new Set(ids)].sort(), ids);
    for (const limit of ['0', '1001', 'x'])
      assertProblem(await admin.get(`/v1/admin/tenants?limit=${limit}`), invalid('limit'));
    assertProblem(await admin.get('/v1/admin/tenants?cursor=x'), invalid('cursor'));
  });
});

describe('changing a tenant', () => {
  test('changes what is named, each limit whole, by id and by name; the others stay', async () => {
    const tenant = await newTenant({ limits: { queues: 5, streams: 2 } });
    const change = (which: string, body: object) => admin.patch(pathOf(which), body);
    const first = await change(tenant.id, { limits: { queues: 6, requestsPerSecond: 10 } });
    assert.equal(first.status, 200, first.text);
    assert.deepEqual(first.body, { ...tenant, limits: { queues: 6, streams: 2, requestsPerSecond: 10 } });
    const second = await change(tenant.name, { autoCreateQueues: false });
    assert.deepEqual(second.body, { ...first.body, autoCreateQueues: false });
    const third = await change(tenant.id.toUpperCase(), {
      limits: { streams: 3 },
      reset: ['queues'],
      autoCreateQueues: true,
    });
    assert.deepEqual(third.body, { ...tenant, limits: { requestsPerSecond: 10, streams: 3 } });
    assert.deepEqual((await admin.get(pathOf(tenant.id))).body, third.body);
  });

  test('sets and resets every limit; to reset one that is not set is no fault', async () => {
    const tenant = await newTenant();
    assert.deepEqual((await admin.patch(pathOf(tenant.id), { limits: EVERY })).body.limits, EVERY);
    for (const name of Object.keys(LIMITS)) {
      const { limits } = (await admin.patch(pathOf(tenant.id), { reset: [name] })).body;
      assert.equal(limits[name], undefined);
    }
    assert.deepEqual((await admin.patch(pathOf(tenant.id), { reset: Object.keys(LIMITS) })).body.limits, {});
  });

  test('is refused without anything to change, and for a limit that is both set and reset', async () => {
    const tenant = await newTenant({ limits: EVERY });
    for (const body of [{}, { limits: {} }, { reset: [] }, { limits: {}, reset: [] }]) {
      assertProblem(await admin.patch(pathOf(tenant.id), body), invalid('body'));
    }
    for (const name of Object.keys(LIMITS)) {
      const body = { limits: { [name]: 7 }, reset: [name] };
      assertProblem(await admin.patch(pathOf(tenant.id), body), invalid([`limits.${name}`, 'reset'], /both/));
    }
    assert.deepEqual((await admin.get(pathOf(tenant.id))).body, tenant);
  });

  test('names the field at fault, and changes nothing', async () => {
    const tenant = await newTenant({ limits: EVERY });
    for (const [name, most] of Object.entries(LIMITS)) {
      for (const value of [0, most + 1, 0.5]) {
        const body = { limits: { [name]: value }, autoCreateQueues: false };
        assertProblem(await admin.patch(pathOf(tenant.id), body), invalid(`limits.${name}`));
      }
    }
    const wrong: readonly [string, object][] = [
      ['reset[0]', { reset: ['everything'] }],
      ['reset', { reset: 'queues' }],
      ['autoCreateQueues', { autoCreateQueues: 'no' }],
      ['name', { name: 'another' }],
      ['state', { state: 'suspended' }],
    ];
    for (const [field, body] of wrong) assertProblem(await admin.patch(pathOf(tenant.id), body), invalid(field));
    assert.deepEqual((await admin.get(pathOf(tenant.id))).body, tenant);
  });

  test('of a tenant that is not there is NOT_FOUND, whatever is asked of it', async () => {
    for (const which of ['nobody', UNKNOWN_ID]) {
      assertProblem(await admin.patch(pathOf(which), { autoCreateQueues: true }), NOT_FOUND);
      assertProblem(await admin.post(`${pathOf(which)}/suspend`), NOT_FOUND);
      assertProblem(await admin.post(`${pathOf(which)}/resume`), NOT_FOUND);
      assertProblem(await admin.delete(pathOf(which)), NOT_FOUND);
    }
    for (const which of ['%20', 'a%2Fb', 'x'.repeat(81)])
      assertProblem(await admin.get(pathOf(which)), invalid('tenant'));
  });

  test('two changes at once both count', async () => {
    const tenant = await newTenant();
    const changes = Object.entries(EVERY).map(([name, value]) =>
      admin.patch(pathOf(tenant.id), { limits: { [name]: value } }),
    );
    for (const { status } of await Promise.all(changes)) assert.equal(status, 200);
    assert.deepEqual((await admin.get(pathOf(tenant.id))).body.limits, EVERY);
  });

  test('counts at once where it was changed', async () => {
    const client = await service.tenant({ name: 'changed' });
    await enqueue(client, 'made');
    await admin.patch(pathOf('changed'), { autoCreateQueues: false });
    assertProblem(await client.post('/v1/queues/new/jobs', {}), { ...NOT_FOUND, fields: ['queue'] });
    await admin.patch(pathOf('changed'), { autoCreateQueues: true, limits: { payloadBytes: 10 } });
    await enqueue(client, 'new', { payload: 'short' });
    const long = await client.post('/v1/queues/new/jobs', { payload: 'longer than ten bytes' });
    assert.equal(long.body.code, 'PAYLOAD_TOO_LARGE');
    await admin.patch(pathOf('changed'), { reset: ['payloadBytes'], limits: { queues: 2 } });
    await enqueue(client, 'new', { payload: 'longer than ten bytes' });
    const third = await client.post('/v1/queues/third/jobs', {});
    assert.deepEqual([third.status, third.body.code], [429, 'QUOTA_EXCEEDED']);
    const shown = (await client.get('/v1/tenant')).body;
    assert.deepEqual([shown.name, shown.limits, shown.queues, shown.storedJobs], ['changed', { queues: 2 }, 2, 3]);
  });
});

test('of calls that wait no more are let in than the tenant may have, of any kind, and the others go on', async () => {
  const client = await service.tenant({ name: 'waiting' });
  await admin.patch(pathOf('waiting'), { limits: { parkedLeases: 1 } });
  const id = await enqueue(client, 'mail', { delay: '1h' });
  const first = client.post('/v1/queues/empty/lease', { wait: '5s' });
  const waits = (): Promise<Answer> => client.get(`/v1/jobs/${id}?wait=10ms`);
  const parked = async () => /^stint_parked_leases 1$/m.test(await (await fetch(`${service.base}/metrics`)).text());
  await until('the first waits', parked);
  const refused = await Promise.all(Array.from({ length: 20 }, waits));
  for (const answer of refused) assertProblem(answer, { status: 429, code: 'QUOTA_EXCEEDED', says: /1 parked lease/ });
  assert.deepEqual((await first).body, { jobs: [] });
  assert.equal((await waits()).body.state, 'scheduled');
});

describe('suspending a tenant', () => {
  test('refuses every call of it until it is resumed, and touches nothing of it', async () => {
    const client = await service.tenant({ name: 'paused' });
    const waiting = await enqueue(client, 'mail');
    const held = await leased(client, 'other', {}, { visibilityTimeout: '12h' });
    const suspended = await admin.post(`${pathOf('paused')}/suspend`);
    assert.equal(suspended.status, 200);
    assert.equal(suspended.body.state, 'suspended');
    assert.deepEqual((await admin.get(pathOf('paused'))).body, suspended.body);
    const calls = [
      client.get('/v1/tenant'),
      client.get('/v1/keys'),
      client.get('/v1/queues'),
      client.post('/v1/queues/mail/jobs', {}),
      client.post('/v1/queues/mail/lease', {}),
      client.post(`/v1/jobs/${held.id}/ack`, { leaseToken: held.leaseToken }),
      client.get(`/v1/jobs/${waiting}`),
    ];
    for (const answer of await Promise.all(calls)) assertProblem(answer, SUSPENDED);
    assertProblem(await clientFor(service.base, `${client.key}x`).get('/v1/tenant'), UNAUTHENTICATED);
    const resumed = await admin.post(`${pathOf(suspended.body.id)}/resume`);
    assert.equal(resumed.status, 200);
    assert.deepEqual(resumed.body, { ...suspended.body, state: 'active' });
    assert.equal((await get(client, waiting)).state, 'ready');
    await settleOk(client, 'ack', held);
  });

  test('that is suspended, or resuming one that is not, changes nothing and is no act', async () => {
    const { id } = await newTenant();
    const events = async () => (await admin.get(`/v1/admin/audit?tenant=${id}&limit=1000`)).body.events as unknown[];
    const first = await admin.post(`${pathOf(id)}/suspend`);
    const before = await events();
    assert.deepEqual((await admin.post(`${pathOf(id)}/suspend`)).body, first.body);
    assert.deepEqual(await events(), before);
    const resumed = await admin.post(`${pathOf(id)}/resume`);
    assert.deepEqual((await admin.post(`${pathOf(id)}/resume`)).body, resumed.body);
    assert.equal((await events()).length, before.length + 1);
  });

  test('leaves an administrator all that he may do with it: read, change, make keys, delete', async () => {
    const { id } = await newTenant();
    await admin.post(`${pathOf(id)}/suspend`);
    const key = await admin.post(`${pathOf(id)}/keys`, { name: 'k', scopes: ['read'] });
    assert.equal(key.status, 201);
    assertProblem(await clientFor(service.base, key.body.secret as string).get('/v1/queues'), SUSPENDED);
    assert.equal((await admin.patch(pathOf(id), { limits: { queues: 1 } })).body.state, 'suspended');
    assert.equal((await admin.delete(`${pathOf(id)}/keys/k`)).status, 200);
    assert.equal((await admin.delete(pathOf(id))).status, 202);
    assertProblem(await admin.post(`${pathOf(id)}/resume`), NOT_FOUND);
  });

  test('tells a key that is revoked or expired nothing of it', async () => {
    const client = await service.tenant({ name: 'silent' });
    await admin.post(`${pathOf('silent')}/suspend`);
    assertProblem(await client.get('/v1/queues'), SUSPENDED);
    await admin.delete(`${pathOf('silent')}/keys/k`);
    assertProblem(await client.get('/v1/queues'), UNAUTHENTICATED);
    const { id, secret } = (
      await admin.post(`${pathOf('silent')}/keys`, { name: 'e', scopes: ['read'], expiresAt: '2101-01-01T00:00:00Z' })
    ).body;
    await service.sql(`update stint.api_key set expires_at = now() - interval '1 s' where id = $1`, [id]);
    assertProblem(await clientFor(service.base, secret as string).get('/v1/queues'), UNAUTHENTICATED);
  });
});
