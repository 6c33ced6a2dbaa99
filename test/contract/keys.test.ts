import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, at, CONFLICT, enqueue, invalid, NOT_FOUND, UNKNOWN_ID } from './jobs.js';

/*
 * Keys that an administrator makes: for a tenant, and of no tenant. What the two have in common is held for both.
 */

const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
const DAY_MS = 86_400_000;

interface Kind {
  readonly path: string;
  readonly fields: object;
  /** A call that every key of the kind may make. */
  readonly call: string;
}

let service: TestService;
let admin: Client;
let made = 0;

before(async () => {
  service = await startTestService();
  admin = service.admin;
  assert.equal((await admin.post('/v1/admin/tenants', { name: 'acme' })).status, 201);
});
after(() => service.stop());

const KINDS: Readonly<Record<string, Kind>> = {
  'a tenant’s': { path: '/v1/admin/tenants/acme/keys', fields: { scopes: ['read'] }, call: '/v1/queues' },
  'an administrator’s': { path: '/v1/admin/keys', fields: {}, call: '/v1/admin/tenants' },
};

async function newKey({ path, fields }: Kind, more: object = {}): Promise<any> {
  const answer = await admin.post(path, { name: `key-${++made}`, ...fields, ...more });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

function withoutSecret({ secret, ...shown }: any): any {
  assert.match(secret as string, /^stint_/);
  return shown;
}

const call = ({ call: path }: Kind, secret: string): Promise<Answer> => clientFor(service.base, secret).get(path);

/** As if that much time had passed since the key was last touched; the service is told as after any change. */
async function age(kind: Kind, id: string, assignments: string): Promise<void> {
  await service.sql(`update stint.api_key set ${assignments} where id = $1`, [id]);
  // Any change makes every instance look anew.
  await admin.delete(`${kind.path}/${(await newKey(kind)).id}`);
}

for (const [name, kind] of Object.entries(KINDS)) {
  describe(`${name} key`, () => {
    test('is made with 201 and its secret, which no other answer shows', async () => {
      const key = await newKey(kind);
      assert.match(key.secret, /^stint_[0-9a-f]{32}_[A-Za-z0-9_-]{49}$/);
      assert.equal((await call(kind, key.secret)).status, 200);
      const answers = [
        await admin.get(kind.path),
        await admin.delete(`${kind.path}/${key.id}`),
        await admin.get('/v1/admin/audit?limit=1000'),
      ];
      for (const { status, text } of answers) {
        assert.equal(status, 200);
        assert.ok(!text.includes(key.secret) && !text.includes('stint_'), 'a secret is shown');
      }
      const shown = withoutSecret(key);
      assert.deepEqual(
        answers[0]!.body.keys.find(({ id }: { id: string }) => id === key.id),
        shown,
      );
      const rows = await service.sql('select to_jsonb(k)::text as row from stint.api_key k where id = $1', [key.id]);
      assert.ok(!rows[0].row.includes(key.secret.slice(-49)));
    });

    test('has a name of its own among those that are not revoked, of the form that names have', async () => {
      const key = await newKey(kind, { name: 'once' });
      assertProblem(await admin.post(kind.path, { ...kind.fields, name: 'once' }), CONFLICT);
      await admin.delete(`${kind.path}/once`);
      assert.notEqual((await newKey(kind, { name: 'once' })).id, key.id);
      for (const wrong of [
        '',
        ' x',
        'a/b',
        'x'.repeat(81),
        UNKNOWN_ID,
        UNKNOWN_ID.toUpperCase(),
        'ä',
        '-a',
        '.',
        '_',
      ]) {
        assertProblem(await admin.post(kind.path, { ...kind.fields, name: wrong }), invalid('name'));
      }
      assertProblem(await admin.post(kind.path, kind.fields), invalid('name', /required/));
      assertProblem(await admin.post(kind.path, { ...kind.fields, name: 'x', secret: 'mine' }), invalid('secret'));
    });

    test('of two that are made at once under one name, one is', async () => {
      const both = await Promise.all([1, 2].map(() => admin.post(kind.path, { ...kind.fields, name: 'at-once' })));
      assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409]);
    });

    test('expires when it says, to the instant, and must not have expired already', async () => {
      for (const expiresAt of ['2001-01-01T00:00:00Z', new Date(Date.now() - 5_000).toISOString()]) {
        assertProblem(
          await admin.post(kind.path, { ...kind.fields, name: 'x', expiresAt }),
          invalid('expiresAt', /future/),
        );
      }
      const wrong = { ...kind.fields, name: 'x', expiresAt: 'tomorrow' };
      assertProblem(await admin.post(kind.path, wrong), invalid('expiresAt'));
      const far = await newKey(kind, { expiresAt: '2101-01-01T00:00:00.000001Z' });
      assert.equal(far.expiresAt, '2101-01-01T00:00:00.000001Z');
      const expiresAt = new Date(Date.now() + 700).toISOString();
      const key = await newKey(kind, { expiresAt });
      assert.equal((await call(kind, key.secret)).status, 200);
      await until('it is refused', async () => (await call(kind, key.secret)).status === 401, 5_000);
      assert.ok(Date.now() > at(expiresAt) - 100, 'it is refused before its time');
      assertProblem(await call(kind, key.secret), UNAUTHENTICATED);
    });

    test('is revoked by name and by id; by id once more it is answered as it is; its name is nobody’s', async () => {
      const [byName, byId] = [await newKey(kind), await newKey(kind)];
      for (const [key, which] of [
        [byName, byName.name],
        [byId, byId.id.toUpperCase()],
      ]) {
        const answer = await admin.delete(`${kind.path}/${which}`);
        assert.equal(answer.status, 200, answer.text);
        assert.ok(at(answer.body.revokedAt) > at(key.createdAt));
        assertProblem(await call(kind, key.secret), UNAUTHENTICATED);
        assert.deepEqual((await admin.delete(`${kind.path}/${key.id}`)).body, answer.body);
        assertProblem(await admin.delete(`${kind.path}/${key.name}`), NOT_FOUND);
        assertProblem(await admin.post(`${kind.path}/${key.id}/rotate`, {}), CONFLICT);
        assertProblem(await admin.post(`${kind.path}/${key.name}/rotate`, {}), NOT_FOUND);
      }
    });

    test('is rotated by name and by id: it stays what it is, and both secrets work for a day', async () => {
      for (const which of ['id', 'name']) {
        const key = await newKey(kind, { expiresAt: '2101-01-01T00:00:00Z' });
        const answer = await admin.post(`${kind.path}/${key[which]}/rotate`, {});
        assert.equal(answer.status, 200, answer.text);
        const { secret, previousSecretUntil, ...rest } = answer.body;
        const { secret: before, ...shown } = key;
        assert.notEqual(secret, before);
        assert.deepEqual({ ...rest, lastUsedAt: undefined }, { ...shown, lastUsedAt: undefined });
        assert.ok(Math.abs(at(previousSecretUntil) - Date.now() - DAY_MS) < 30_000, previousSecretUntil);
        for (const each of [before, secret]) assert.equal((await call(kind, each)).status, 200);
      }
    });

    test('whose secret was rotated out lets nobody in by it after the overlap', async () => {
      const key = await newKey(kind);
      const { secret, previousSecretUntil } = (await admin.post(`${kind.path}/${key.id}/rotate`, { overlap: '1h' }))
        .body;
      assert.ok(Math.abs(at(previousSecretUntil) - Date.now() - 3_600_000) < 30_000);
      assert.equal((await call(kind, key.secret)).status, 200);
      await age(kind, key.id, `previous_until = previous_until - interval '1 hour'`);
      assertProblem(await call(kind, key.secret), UNAUTHENTICATED);
      assert.equal((await call(kind, secret)).status, 200);
    });

    test('rotated with no overlap ends the old secret at once; rotated twice, the oldest at once', async () => {
      const key = await newKey(kind);
      const second = (await admin.post(`${kind.path}/${key.id}/rotate`, { overlap: '0s' })).body.secret;
      assertProblem(await call(kind, key.secret), UNAUTHENTICATED);
      assert.equal((await call(kind, second)).status, 200);
      const third = (await admin.post(`${kind.path}/${key.id}/rotate`, { overlap: '1h' })).body.secret;
      for (const secret of [second, third]) assert.equal((await call(kind, secret)).status, 200);
      const fourth = (await admin.post(`${kind.path}/${key.id}/rotate`, { overlap: '1h' })).body.secret;
      assertProblem(await call(kind, second), UNAUTHENTICATED);
      for (const secret of [third, fourth]) assert.equal((await call(kind, secret)).status, 200);
      await admin.delete(`${kind.path}/${key.id}`);
      for (const secret of [third, fourth]) assertProblem(await call(kind, secret), UNAUTHENTICATED);
    });

    test('takes an overlap of 0s to 30d, and says so of others', async () => {
      const key = await newKey(kind);
      const rotate = (overlap: unknown) => admin.post(`${kind.path}/${key.id}/rotate`, { overlap });
      for (const overlap of ['0s', '30d', '2592000s']) assert.equal((await rotate(overlap)).status, 200);
      for (const overlap of ['-1s', '2592001s', 'soon', '']) assertProblem(await rotate(overlap), invalid('overlap'));
      const unknown = { scopes: ['read'] };
      assertProblem(await admin.post(`${kind.path}/${key.id}/rotate`, unknown), invalid('scopes', /not a known field/));
    });

    test('that is not there is NOT_FOUND; what cannot be one is refused with its form', async () => {
      for (const which of [UNKNOWN_ID, 'nobody']) {
        assertProblem(await admin.delete(`${kind.path}/${which}`), NOT_FOUND);
        assertProblem(await admin.post(`${kind.path}/${which}/rotate`, {}), NOT_FOUND);
      }
      for (const which of ['%20', 'a%2Fb', 'x'.repeat(81)]) {
        assertProblem(await admin.delete(`${kind.path}/${which}`), invalid('key'));
      }
    });

    test('is listed with the others, revoked and expired ones too, oldest first, page by page', async () => {
      const [revoked, expired] = [await newKey(kind), await newKey(kind)];
      await admin.delete(`${kind.path}/${revoked.id}`);
      await age(kind, expired.id, `expires_at = now() - interval '1 s'`);
      const ids: string[] = [];
      let cursor: string | undefined;
      do {
        const { body } = await admin.get(`${kind.path}?limit=7${cursor === undefined ? '' : `&cursor=${cursor}`}`);
        assert.ok(body.keys.length > 0 && body.keys.length <= 7);
        ids.push(...body.keys.map(({ id }: { id: string }) => id));
        cursor = body.nextCursor as string | undefined;
      } while (cursor !== undefined);
      const all = (await admin.get(`${kind.path}?limit=1000`)).body.keys;
      assert.deepEqual(
        ids,
        all.map(({ id }: { id: string }) => id),
      );
      assert.deepEqual([...ids].sort(), ids);
      assert.ok(ids.includes(revoked.id as string) && ids.includes(expired.id as string));
      for (const limit of ['0', '1001', 'x'])
        assertProblem(await admin.get(`${kind.path}?limit=${limit}`), invalid('limit'));
      assertProblem(await admin.get(`${kind.path}?cursor=x`), invalid('cursor'));
    });
  });
}

describe('a tenant’s key', () => {
  const path = '/v1/admin/tenants/acme/keys';

  test('shows its scopes, queues and limits', async () => {
    const fields = {
      scopes: ['work', 'enqueue'],
      queues: ['billing-*', 'exact', '*'],
      limits: { requestsPerSecond: 10, jobsPerSecond: 5, payloadBytes: 1_024, parkedLeases: 2, streams: 1 },
      expiresAt: '2101-01-01T00:00:00.000000Z',
    };
    const key = await newKey(KINDS['a tenant’s']!, fields);
    const { id, name, createdAt, ...rest } = withoutSecret(key);
    assert.deepEqual(rest, fields);
    assert.ok(id && name && createdAt);
    const client = clientFor(service.base, key.secret as string);
    await enqueue(client, 'billing-a');
  });

  test('is bound to names and to beginnings of names; another pattern is refused with its place', async () => {
    const create = (queues: unknown) => admin.post(path, { name: `p-${++made}`, scopes: ['work'], queues });
    for (const queues of [['*'], ['a*'], ['a'], ['A.b_c-9*'], ['x'.repeat(80)], [`${'x'.repeat(79)}*`]]) {
      assert.equal((await create(queues)).status, 201, queues[0]);
    }
    const wrong = [
      '',
      '**',
      '*a',
      'a*b',
      'a**',
      '-a*',
      '.*',
      'a b',
      'ä*',
      'a?',
      'a%',
      `${'x'.repeat(80)}*`,
      'x'.repeat(81),
    ];
    for (const pattern of wrong) assertProblem(await create(['fine', pattern]), invalid('queues[1]'));
    assertProblem(await create([]), invalid('queues'));
    assertProblem(await create(['a', 'a']), invalid('queues'));
    assertProblem(await create(Array.from({ length: 101 }, (_, n) => `q${n}`)), invalid('queues'));
    assert.equal((await create(Array.from({ length: 100 }, (_, n) => `q${n}`))).status, 201);
  });

  test('has limits within their bounds, and no others', async () => {
    const create = (limits: unknown) => admin.post(path, { name: `l-${++made}`, scopes: ['work'], limits });
    const bounds = {
      requestsPerSecond: 1_000_000,
      jobsPerSecond: 1_000_000,
      payloadBytes: 2 * 1024 * 1024,
      parkedLeases: 1_000_000,
      streams: 1_000_000,
    };
    for (const [name, most] of Object.entries(bounds)) {
      for (const value of [1, most]) assert.equal((await create({ [name]: value })).status, 201);
      for (const value of [0, -1, most + 1, 1.5])
        assertProblem(await create({ [name]: value }), invalid(`limits.${name}`));
    }
    for (const name of ['storedJobs', 'queues']) {
      assertProblem(await create({ [name]: 1 }), invalid(`limits.${name}`, /not a known field/));
    }
    assert.deepEqual((await create({})).body.limits, {});
  });
});

describe('an administrator’s key', () => {
  test('has no scopes, queues or limits to choose: it may what an administrator may, and no more', async () => {
    for (const field of ['scopes', 'queues', 'limits']) {
      assertProblem(
        await admin.post('/v1/admin/keys', { name: 'x', [field]: [] }),
        invalid(field, /not a known field/),
      );
    }
    const key = await newKey(KINDS['an administrator’s']!);
    const client = clientFor(service.base, key.secret as string);
    assertProblem(await client.get('/v1/queues'), { status: 403, code: 'PERMISSION_DENIED' });
    assert.equal((await client.post('/v1/admin/keys', { name: 'by-a-made-one' })).status, 201);
    assert.equal((await client.post(`/v1/admin/keys/${key.id}/rotate`, { overlap: '0s' })).status, 200);
    assertProblem(await client.get('/v1/admin/keys'), UNAUTHENTICATED);
  });

  test('is not the root’s: that stands in no list and cannot be rotated or revoked here', async () => {
    const { keys } = (await admin.get('/v1/admin/keys?limit=1000')).body;
    assert.ok(!keys.some(({ name }: { name: string }) => name === 'root'));
    assertProblem(await admin.delete('/v1/admin/keys/root'), NOT_FOUND);
    assertProblem(await admin.post('/v1/admin/keys/root/rotate', {}), NOT_FOUND);
  });
});
