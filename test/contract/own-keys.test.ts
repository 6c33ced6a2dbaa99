import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { type Answer, type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { assertProblem, CONFLICT, enqueue, invalid, NOT_FOUND, UNKNOWN_ID } from './jobs.js';

const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
const SOON = '2090-01-01T00:00:00.000001Z';
const LATE = '2101-01-01T00:00:00Z';
const beyond = (field: string) => ({ status: 403, code: 'PERMISSION_DENIED', fields: [field] });

let service: TestService;
let tenant: string;
let made = 0;

before(async () => {
  service = await startTestService();
});
beforeEach(async () => {
  tenant = `own-${++made}`;
  assert.equal((await service.admin.post('/v1/admin/tenants', { name: tenant })).status, 201);
});
after(() => service.stop());

interface Key {
  readonly id: string;
  readonly name: string;
  readonly secret: string;
  readonly client: Client;
}

/** A key that the administrator makes. */
async function given(fields: object = {}): Promise<Key> {
  const name = `given-${++made}`;
  const all = { name, scopes: ['enqueue', 'work', 'read', 'manage'], ...fields };
  const answer = await service.admin.post(`/v1/admin/tenants/${tenant}/keys`, all);
  assert.equal(answer.status, 201, answer.text);
  return {
    id: answer.body.id,
    name,
    secret: answer.body.secret,
    client: clientFor(service.base, answer.body.secret as string),
  };
}

const create = ({ client }: Key, fields: object = {}): Promise<Answer> =>
  client.post('/v1/keys', { name: `own-${++made}`, scopes: ['read'], ...fields });

async function created(by: Key, fields: object = {}): Promise<Key> {
  const { status, text, body } = await create(by, fields);
  assert.equal(status, 201, text);
  return { id: body.id, name: body.name, secret: body.secret, client: clientFor(service.base, body.secret as string) };
}

describe('a tenant’s own manage key', () => {
  test('makes, lists, rotates and revokes keys of its tenant, and sees no secret but in the answer that makes it', async () => {
    const manager = await given();
    const key = await created(manager, { scopes: ['enqueue'], queues: ['mail'], limits: { jobsPerSecond: 100 } });
    await enqueue(key.client, 'mail');
    const listed = await manager.client.get('/v1/keys');
    assert.deepEqual(
      listed.body.keys.map(({ name }: { name: string }) => name),
      [manager.name, key.name],
    );
    assert.ok(!listed.text.includes('stint_'));
    const rotated = await manager.client.post(`/v1/keys/${key.name}/rotate`, { overlap: '0s' });
    assert.equal(rotated.status, 200, rotated.text);
    assert.deepEqual([rotated.body.queues, rotated.body.limits], [['mail'], { jobsPerSecond: 100 }]);
    assertProblem(await key.client.post('/v1/queues/mail/jobs', {}), UNAUTHENTICATED);
    const again = clientFor(service.base, rotated.body.secret as string);
    await enqueue(again, 'mail');
    const revoked = await manager.client.delete(`/v1/keys/${key.id}`);
    assert.equal(revoked.status, 200);
    assert.ok(revoked.body.revokedAt !== undefined && !revoked.text.includes('stint_'));
    assertProblem(await again.post('/v1/queues/mail/jobs', {}), UNAUTHENTICATED);
    assertProblem(await manager.client.post(`/v1/keys/${key.id}/rotate`, {}), CONFLICT);
    assertProblem(await manager.client.delete(`/v1/keys/${key.name}`), NOT_FOUND);
    assert.deepEqual((await manager.client.delete(`/v1/keys/${key.id}`)).body, revoked.body);
  });

  test('is told what is wrong with its input as an administrator is', async () => {
    const manager = await given();
    assertProblem(await create(manager, { name: manager.name }), CONFLICT);
    assertProblem(await create(manager, { name: UNKNOWN_ID }), invalid('name'));
    assertProblem(await create(manager, { scopes: ['admin'] }), invalid('scopes[0]'));
    assertProblem(await create(manager, { scopes: [] }), invalid('scopes'));
    assertProblem(await create(manager, { queues: ['a*b'] }), invalid('queues[0]'));
    assertProblem(await create(manager, { limits: { streams: 0 } }), invalid('limits.streams'));
    assertProblem(await create(manager, { expiresAt: '2001-01-01T00:00:00Z' }), invalid('expiresAt', /future/));
    for (const key of ['nobody', UNKNOWN_ID]) {
      assertProblem(await manager.client.delete(`/v1/keys/${key}`), NOT_FOUND);
      assertProblem(await manager.client.post(`/v1/keys/${key}/rotate`, {}), NOT_FOUND);
    }
    assertProblem(await manager.client.post(`/v1/keys/${manager.id}/rotate`, { overlap: '31d' }), invalid('overlap'));
  });

  test('rotates and revokes itself, whatever bounds it has', async () => {
    const bounds = { queues: ['billing-*'], limits: { requestsPerSecond: 1_000 }, expiresAt: SOON };
    for (const fields of [{}, bounds]) {
      const key = await given(fields);
      const rotated = await key.client.post(`/v1/keys/${key.id}/rotate`, { overlap: '0s' });
      assert.equal(rotated.status, 200, rotated.text);
      const next = clientFor(service.base, rotated.body.secret as string);
      assert.equal((await next.delete(`/v1/keys/${key.id}`)).status, 200);
      assertProblem(await next.get('/v1/keys'), UNAUTHENTICATED);
    }
  });
});

describe('a key never grants more than it has', () => {
  /** What the maker has; what it may give; what it may not, by the field that says so. */
  const RULES: Readonly<
    Record<
      string,
      { readonly has: object; readonly may: readonly object[]; readonly mayNot: readonly [string, object][] }
    >
  > = {
    'scopes: those it holds, and read with manage': {
      has: { scopes: ['manage', 'work'] },
      may: [{ scopes: ['manage'] }, { scopes: ['work', 'manage'] }, { scopes: ['read'] }],
      mayNot: [
        ['scopes', { scopes: ['enqueue'] }],
        ['scopes', { scopes: ['work', 'tick'] }],
      ],
    },
    'queues: beginnings within its beginnings, and names within either': {
      has: { queues: ['billing-*', 'exact'] },
      may: [
        { queues: ['billing-*'] },
        { queues: ['billing-a*', 'billing-x', 'exact'] },
        { queues: ['billing-'] },
        { queues: ['exact'] },
      ],
      mayNot: [
        ['queues', {}],
        ['queues', { queues: ['*'] }],
        ['queues', { queues: ['bill*'] }],
        ['queues', { queues: ['billing*'] }],
        ['queues', { queues: ['billing'] }],
        ['queues', { queues: ['exact*'] }],
        ['queues', { queues: ['exactly'] }],
        ['queues', { queues: ['Billing-a'] }],
        ['queues', { queues: ['billing-a', 'orders'] }],
      ],
    },
    'queues: all of them, for a key bound to a star': {
      has: { queues: ['*'] },
      may: [{ queues: ['*'] }, { queues: ['a*', 'b'] }],
      mayNot: [['queues', {}]],
    },
    'time: no longer than its own': {
      has: { expiresAt: SOON },
      may: [{ expiresAt: SOON }, { expiresAt: '2089-12-31T23:59:59Z' }],
      mayNot: [
        ['expiresAt', {}],
        ['expiresAt', { expiresAt: LATE }],
        ['expiresAt', { expiresAt: '2090-01-01T00:00:00.000002Z' }],
      ],
    },
    'limits on one call: at most as much': {
      has: { limits: { payloadBytes: 1_024 } },
      may: [{ limits: { payloadBytes: 1_024 } }, { limits: { requestsPerSecond: 1, payloadBytes: 1, streams: 5 } }],
      mayNot: [
        ['limits.payloadBytes', {}],
        ['limits.payloadBytes', { limits: { requestsPerSecond: 1_000 } }],
        ['limits.payloadBytes', { limits: { requestsPerSecond: 1_000, payloadBytes: 1_025 } }],
      ],
    },
  };

  for (const [rule, { has, may, mayNot }] of Object.entries(RULES)) {
    test(rule, async () => {
      const maker = await given(has);
      for (const fields of may) assert.equal((await create(maker, fields)).status, 201, JSON.stringify(fields));
      const before = (await maker.client.get('/v1/keys')).body.keys;
      for (const [field, fields] of mayNot) assertProblem(await create(maker, fields), beyond(field));
      assert.deepEqual((await maker.client.get('/v1/keys')).body.keys, before);
    });

    test(`${rule}; nor does it rotate a wider key`, async () => {
      const maker = await given(has);
      for (const [field, fields] of mayNot) {
        const wider = await given({ scopes: ['read'], ...fields });
        assertProblem(await maker.client.post(`/v1/keys/${wider.id}/rotate`, { overlap: '0s' }), beyond(field));
        assert.notEqual((await wider.client.get('/v1/queues')).status, 401);
        const answer = await maker.client.delete(`/v1/keys/${wider.name}`);
        // To end a key grants nothing, so how long it would have lasted is of no account.
        if (field === 'expiresAt') assert.equal(answer.status, 200, answer.text);
        else assertProblem(answer, beyond(field));
        assert.equal((await wider.client.get('/v1/queues')).status === 401, field === 'expiresAt');
      }
      for (const fields of may) {
        const narrower = await given({ scopes: ['read'], ...fields });
        assert.equal((await maker.client.post(`/v1/keys/${narrower.id}/rotate`, {})).status, 200);
        assert.equal((await maker.client.delete(`/v1/keys/${narrower.id}`)).status, 200);
      }
    });
  }

  test('limits on calls together: who has one makes no key, and takes over none, but ends those that are no wider', async () => {
    for (const name of ['requestsPerSecond', 'jobsPerSecond', 'parkedLeases', 'streams']) {
      const maker = await given({ limits: { [name]: 1_000 } });
      const fields = { limits: { [name]: 1 } };
      assertProblem(await create(maker, fields), beyond(`limits.${name}`));
      const other = await given({ scopes: ['read'], ...fields });
      assertProblem(await maker.client.post(`/v1/keys/${other.id}/rotate`, {}), beyond(`limits.${name}`));
      assert.equal((await maker.client.delete(`/v1/keys/${other.id}`)).status, 200);
      const unbound = await given({ scopes: ['read'] });
      assertProblem(await maker.client.delete(`/v1/keys/${unbound.id}`), beyond(`limits.${name}`));
    }
  });

  test('and what it made is held to the same, so that a chain of keys never widens', async () => {
    const first = await given({ queues: ['billing-*'], limits: { payloadBytes: 1_000 }, expiresAt: SOON });
    const bounds = { queues: ['billing-a*'], limits: { payloadBytes: 500 }, expiresAt: '2080-01-01T00:00:00Z' };
    const second = await created(first, { ...bounds, scopes: ['manage'] });
    assertProblem(await create(second, { ...bounds, queues: ['billing-*'] }), beyond('queues'));
    assertProblem(await create(second, { ...bounds, scopes: ['enqueue'] }), beyond('scopes'));
    assertProblem(await create(second, { ...bounds, expiresAt: SOON }), beyond('expiresAt'));
    assertProblem(await create(second, { ...bounds, limits: { payloadBytes: 501 } }), beyond('limits.payloadBytes'));
    assertProblem(await second.client.post(`/v1/keys/${first.id}/rotate`, {}), beyond('scopes'));
    await created(second, bounds);
  });

  test('and a secret that is being rotated out makes nothing that outlasts it, nor a secret for itself', async () => {
    const key = await given();
    assert.equal((await service.admin.post(`/v1/admin/tenants/${tenant}/keys/${key.id}/rotate`, {})).status, 200);
    assertProblem(await create(key), beyond('expiresAt'));
    assertProblem(await key.client.post(`/v1/keys/${key.id}/rotate`, {}), beyond('expiresAt'));
    await created(key, { expiresAt: new Date(Date.now() + 60_000).toISOString() });
  });
});
