import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { v7 } from 'uuid';
import type { Operation } from '../../src/core/operation.js';
import { compileValidator } from '../../src/core/validate.js';
import { ServiceError } from '../../src/errors.js';
import type { Engine } from '../../src/hotpath/engine.js';
import { createMarkKeysUsed } from '../../src/tasks/mark-keys-used.js';
import { createAuthenticate } from '../../src/tenants/authenticate.js';
import { createApiKey } from '../../src/tenants/create-key.js';
import type { ApiKey, CreatedKey } from '../../src/tenants/api-key.js';
import { createTenant } from '../../src/tenants/create-tenant.js';
import { ensureDefaultKey, ensureDefaultTenant } from '../../src/tenants/ensure-default.js';
import { getTenant } from '../../src/tenants/get-tenant.js';
import { KnownKeys } from '../../src/tenants/known-keys.js';
import { KnownTenants } from '../../src/tenants/known-tenants.js';
import { fixedRootKeys } from '../../src/tenants/root-keys.js';
import { Tokens } from '../../src/tenants/tokens.js';
import { listApiKeys } from '../../src/tenants/list-keys.js';
import { listTenants } from '../../src/tenants/list-tenants.js';
import { revokeApiKey } from '../../src/tenants/revoke-key.js';
import type { CredentialMemory } from '../../src/core/presented.js';
import { createSecret, hashSecret, keyIdOf } from '../../src/tenants/secret.js';
import type { Tenant } from '../../src/tenants/tenant.js';
import { openParts, type Parts } from './parts.js';

const ADMIN_KEY = 'the-admin-key';

let parts: Parts;
let tenant: Tenant;

before(async () => {
  parts = await openParts();
  tenant = await run<Tenant>(createTenant, { name: 'acme' });
});
after(() => parts.close());

function run<T>(operation: Operation<Engine>, input: Record<string, unknown>): Promise<T> {
  compileValidator(operation.input)(input);
  return operation.run(parts.admin as never, input as never) as Promise<T>;
}

let made = 0;
const newKey = (more: Record<string, unknown> = {}) =>
  run<CreatedKey>(createApiKey, { tenant: tenant.id, name: `key-${++made}`, scopes: ['work'], ...more });

/** As another instance, which remembers nothing yet; a promise whatever it knows by heart. */
function authenticator(keys = new KnownKeys(parts.connections), adminKey = ADMIN_KEY) {
  const authenticate = createAuthenticate({
    keys,
    tenants: new KnownTenants(parts.connections),
    tokens: new Tokens({ issuers: [], onTrouble: () => undefined }),
    rootHashes: fixedRootKeys(adminKey === '' ? [] : [adminKey]),
  });
  return async (header: string | undefined, memory: CredentialMemory = { presented: undefined }) =>
    await authenticate(header, memory);
}

const code = (expected: string, field?: string) => (error: unknown) => {
  assert.ok(error instanceof ServiceError, String(error));
  assert.equal(error.code, expected);
  if (field !== undefined) assert.equal(error.fields[0]?.field, field);
  return true;
};

describe('tenants', () => {
  test('are found by id and by name', async () => {
    assert.deepEqual(await run(getTenant, { tenant: tenant.id.toUpperCase() }), tenant);
    assert.deepEqual(await run(getTenant, { tenant: 'acme' }), tenant);
    assert.equal(tenant.autoCreateQueues, true);
    const strict = await run<Tenant>(createTenant, { name: 'strict', autoCreateQueues: false });
    assert.equal(strict.autoCreateQueues, false);
    for (const unknown of ['nobody', v7()])
      await assert.rejects(run(getTenant, { tenant: unknown }), code('NOT_FOUND'));
  });

  test('have a name that no other has', async () => {
    await assert.rejects(run(createTenant, { name: 'acme' }), code('CONFLICT'));
  });

  test('C12: names are told apart to their last character and in upper and lower case, longer and other ones refused', async () => {
    const start = 'n'.repeat(63);
    for (const name of [
      `${start}1`,
      `${start}2`,
      'Case',
      'case',
      'x'.repeat(80),
      '0',
      'constructor',
      '__proto__'.slice(2),
    ]) {
      const { id } = await run<Tenant>(createTenant, { name });
      assert.equal((await run<Tenant>(getTenant, { tenant: name })).id, id);
    }
    const refused = [
      '',
      'x'.repeat(81),
      'a b',
      'a/b',
      'é',
      'a%2Fb',
      "a'b",
      'a\u0000',
      '-a',
      '.',
      'a ',
      v7(),
      v7().toUpperCase(),
    ];
    for (const name of refused) {
      await assert.rejects(async () => run(createTenant, { name }), code('INVALID_ARGUMENT', 'name'));
    }
  });

  test('are listed oldest first, page by page', async () => {
    const names: string[] = [];
    for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
      const page: { tenants: Tenant[]; nextCursor?: string } = await run(listTenants, {
        limit: 2,
        ...(first ? {} : { cursor }),
      });
      assert.ok(page.tenants.length <= 2);
      names.push(...page.tenants.map(({ name }) => name));
      cursor = page.nextCursor;
    }
    const rows = await parts.sql(`select name from stint.tenant where name not like '.%' order by id`);
    assert.deepEqual(
      names,
      rows.map(({ name }) => name),
    );
    await assert.rejects(
      run(listTenants, { cursor: Buffer.from('["x"]').toString('base64url') }),
      code('INVALID_ARGUMENT', 'cursor'),
    );
  });
});

describe('API keys', () => {
  test('let their holder in, with tenant, name and scopes', async () => {
    const key = await newKey({ scopes: ['work', 'read'] });
    const caller = await authenticator()(`Bearer ${key.secret}`);
    assert.deepEqual([caller.id, caller.name, [...caller.scopes]], [key.id, key.name, ['work', 'read']]);
    assert.deepEqual(caller.tenant, { id: tenant.id, name: 'acme', autoCreateQueues: true, limits: {} });
    assert.equal((await authenticator()(`bearer  ${key.secret} `)).id, key.id);
  });

  test('are kept as a hash, and show their secret once', async () => {
    const { secret, ...key } = await newKey();
    const [row] = await parts.sql('select * from stint.api_key where id = $1', [key.id]);
    assert.deepEqual(row.secret_hash, hashSecret(secret));
    assert.ok(!JSON.stringify(row).includes(secret.slice(-20)));
    const { keys } = await run<{ keys: ApiKey[] }>(listApiKeys, { tenant: 'acme' });
    assert.deepEqual(
      keys.find(({ id }) => id === key.id),
      key,
    );
  });

  test('have at least one scope, each once, and never admin', async () => {
    for (const scopes of [[], ['work', 'work'], ['admin'], ['work', 'admin'], ['everything']]) {
      await assert.rejects(async () => newKey({ scopes }), code('INVALID_ARGUMENT'));
    }
  });

  test('have a name of their own among their tenant’s keys that are not revoked', async () => {
    const key = await newKey({ name: 'same' });
    await assert.rejects(newKey({ name: 'same' }), code('CONFLICT'));
    await run(createTenant, { name: 'umbrella' });
    await newKey({ tenant: 'umbrella', name: 'same' });
    await run(revokeApiKey, { tenant: 'acme', key: 'same' });
    assert.notEqual((await newKey({ name: 'same' })).id, key.id);
  });

  test('are of a tenant that exists', async () => {
    await assert.rejects(newKey({ tenant: v7() }), code('NOT_FOUND'));
    await assert.rejects(run(listApiKeys, { tenant: 'nobody' }), code('NOT_FOUND'));
  });

  test('are listed page by page', async () => {
    const first = await run<{ keys: ApiKey[]; nextCursor: string }>(listApiKeys, { tenant: 'acme', limit: 1 });
    const second = await run<{ keys: ApiKey[] }>(listApiKeys, { tenant: 'acme', limit: 1, cursor: first.nextCursor });
    assert.ok(first.keys[0]!.id < second.keys[0]!.id);
  });

  test('are refused once they have expired, to the instant', async () => {
    const authenticate = authenticator();
    await assert.rejects(newKey({ expiresAt: Date.now() * 1000 - 1 }), code('INVALID_ARGUMENT', 'expiresAt'));
    const key = await newKey({ expiresAt: (Date.now() + 400) * 1000 });
    assert.equal((await authenticate(`Bearer ${key.secret}`)).id, key.id);
    const deadline = Date.now() + 3_000;
    const refused = async () => authenticate(`Bearer ${key.secret}`).then(() => false, code('UNAUTHENTICATED'));
    while (!(await refused())) {
      assert.ok(Date.now() < deadline, 'an expired key goes on working');
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.ok(Date.now() * 1000 >= key.expiresAt! - 50_000);
  });

  test('C67: a revoked key is refused at once where it was revoked; revoking it again by id answers it as it is', async () => {
    const authenticate = authenticator(parts.keys);
    const key = await newKey();
    await authenticate(`Bearer ${key.secret}`);
    const revoked = await run<ApiKey>(revokeApiKey, { tenant: 'acme', key: key.id });
    assert.ok(revoked.revokedAt !== undefined);
    await assert.rejects(authenticate(`Bearer ${key.secret}`), code('UNAUTHENTICATED'));
    assert.deepEqual(await run(revokeApiKey, { tenant: 'acme', key: key.id }), revoked);
    await assert.rejects(run(revokeApiKey, { tenant: 'acme', key: key.name }), code('NOT_FOUND'));
  });

  test('C67: a look-up that is under way when its key is revoked is not remembered, nor joined', async () => {
    const key = await newKey();
    const meanwhile: Promise<unknown>[] = [];
    const slow = {
      query: async (...args: Parameters<typeof parts.connections.query>) => {
        const rows = await parts.connections.query(...args);
        if (meanwhile.length === 0) {
          await parts.sql('update stint.api_key set revoked_at = now() where id = $1', [key.id]);
          known.forget();
          meanwhile.push(authenticate(`Bearer ${key.secret}`).then(() => 'let in', code('UNAUTHENTICATED')));
        }
        return rows;
      },
    } as unknown as typeof parts.connections;
    const known = new KnownKeys(slow);
    const authenticate = authenticator(known);
    assert.equal((await authenticate(`Bearer ${key.secret}`)).id, key.id);
    assert.deepEqual(await Promise.all(meanwhile), [true]);
    await assert.rejects(authenticate(`Bearer ${key.secret}`), code('UNAUTHENTICATED'));
  });

  test('C67: what another instance remembers is at most 2 s old', async (t) => {
    const key = await newKey();
    const authenticate = authenticator();
    const began = performance.now();
    let passed = 0;
    t.mock.method(performance, 'now', () => began + passed);
    await authenticate(`Bearer ${key.secret}`);
    await parts.sql('update stint.api_key set revoked_at = now() where id = $1', [key.id]);
    passed = 1_900;
    await authenticate(`Bearer ${key.secret}`);
    passed = 2_000;
    await assert.rejects(authenticate(`Bearer ${key.secret}`), code('UNAUTHENTICATED'));
  });

  test('C65: a key of another tenant is answered as one that does not exist', async () => {
    const { id } = await run<Tenant>(createTenant, { name: 'other' });
    const key = await newKey();
    const refusal = async (key: string) => {
      const error: unknown = await run(revokeApiKey, { tenant: id, key }).then(
        () => undefined,
        (error: unknown) => error,
      );
      assert.ok(error instanceof ServiceError, String(error));
      return { code: error.code, message: error.message };
    };
    assert.deepEqual(await refusal(key.id), await refusal(v7()));
    assert.deepEqual(await refusal(key.name), await refusal('nothing'));
    assert.equal((await authenticator()(`Bearer ${key.secret}`)).id, key.id);
  });
});

describe('authentication', () => {
  test('takes the admin key, which belongs to no tenant', async () => {
    const caller = await authenticator()(`Bearer ${ADMIN_KEY}`);
    assert.deepEqual([caller.name, [...caller.scopes], caller.tenant], ['root', ['admin'], undefined]);
  });

  test('lets nobody in by a root key when there is none', async () => {
    const authenticate = authenticator(parts.keys, '');
    for (const header of ['Bearer ', 'Bearer  ', 'Bearer x'])
      await assert.rejects(authenticate(header), code('UNAUTHENTICATED'));
  });

  test('refuses what has not the form of a credential without asking the database', async () => {
    const { secret } = await newKey();
    const authenticate = authenticator();
    const calls = parts.calls();
    const wrong = [
      undefined,
      '',
      secret,
      `Basic ${secret}`,
      'Bearer x',
      `Bearer ${secret}x`,
      `Bearer ${secret.slice(0, -1)}`,
    ];
    wrong.push(`Bearer ${secret.slice(0, -8)}AAAAAAAA`, `Bearer ${secret} ${secret}`, `Bearer ${'x'.repeat(100_000)}`);
    for (const header of wrong) await assert.rejects(authenticate(header), code('UNAUTHENTICATED'));
    assert.equal(parts.calls(), calls);
  });

  test('refuses a well-formed secret that is not the key’s, and remembers that', async () => {
    const key = await newKey();
    const forged = createSecret(key.id);
    const authenticate = authenticator();
    await assert.rejects(authenticate(`Bearer ${forged}`), code('UNAUTHENTICATED'));
    const calls = parts.calls();
    await assert.rejects(authenticate(`Bearer ${forged}`), code('UNAUTHENTICATED'));
    assert.equal(parts.calls(), calls);
    await authenticate(`Bearer ${key.secret}`);
  });

  test('asks the database once for many callers at once, of one key or of many', async () => {
    const keys = await Promise.all([newKey(), newKey(), newKey()]);
    const authenticate = authenticator();
    const calls = parts.calls();
    const secrets = [...keys, ...keys].flatMap(({ secret }) => [secret, createSecret(v7())]);
    const answers = await Promise.allSettled(secrets.map((secret) => authenticate(`Bearer ${secret}`)));
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 6);
    assert.ok(parts.calls() - calls <= 2, `${parts.calls() - calls} calls`);
  });

  test('C67: keeps a bounded number of bad keys, and no flood of them drives out a good one', async () => {
    const key = await newKey();
    const known = new KnownKeys(parts.connections);
    const authenticate = authenticator(known);
    await authenticate(`Bearer ${key.secret}`);
    const calls = parts.calls();
    const flood = Array.from({ length: 12_000 }, () => authenticate(`Bearer ${createSecret(v7())}`));
    assert.ok((await Promise.allSettled(flood)).every(({ status }) => status === 'rejected'));
    assert.ok(parts.calls() - calls <= 13, `${parts.calls() - calls} calls`);
    assert.equal(known.size, 10_001);
    await authenticate(`Bearer ${key.secret}`);
    assert.ok(parts.calls() - calls <= 13);
  });

  test('is UNAVAILABLE while the database is away, and remembers nothing of that', async () => {
    const key = await newKey();
    let away = true;
    const flaky = {
      query: (...args: Parameters<typeof parts.connections.query>) =>
        away ? Promise.reject(new ServiceError('UNAVAILABLE', 'away')) : parts.connections.query(...args),
    } as unknown as typeof parts.connections;
    const authenticate = authenticator(new KnownKeys(flaky));
    await assert.rejects(authenticate(`Bearer ${key.secret}`), code('UNAVAILABLE'));
    away = false;
    assert.equal((await authenticate(`Bearer ${key.secret}`)).id, key.id);
  });
});

describe('when a key was used last', () => {
  const lastUsed = async (id: string): Promise<Date | null> =>
    (await parts.sql('select last_used_at as at from stint.api_key where id = $1', [id]))[0].at as Date | null;

  test('is noted once for all its calls of a minute, whatever the number of instances', async () => {
    const [key, unused] = [await newKey(), await newKey()];
    const instances = [1, 2].map(() => new KnownKeys(parts.connections));
    const use = () => Promise.all(instances.map((known) => authenticator(known)(`Bearer ${key.secret}`)));
    const mark = () => Promise.all(instances.map((known) => createMarkKeysUsed(known).run(parts.engine)));
    for (let calls = 0; calls < 100; calls += 1) await use();
    assert.equal(await lastUsed(key.id), null, 'a call writes nothing');
    await mark();
    const noted = await lastUsed(key.id);
    assert.ok(noted !== null && Math.abs(noted.getTime() - Date.now()) < 30_000);
    instances.forEach((known) => known.forget());
    await use();
    await mark();
    assert.deepEqual(await lastUsed(key.id), noted);
    await parts.sql(`update stint.api_key set last_used_at = last_used_at - interval '1 minute' where id = $1`, [
      key.id,
    ]);
    await mark();
    const before = await lastUsed(key.id);
    instances.forEach((known) => known.forget());
    await use();
    await mark();
    assert.ok((await lastUsed(key.id))!.getTime() > before!.getTime() + 50_000);
    assert.equal(await lastUsed(unused.id), null);
  });

  test('is not touched by a wrong secret, or one that is refused', async () => {
    const [key, revoked] = [await newKey(), await newKey()];
    await parts.sql('update stint.api_key set revoked_at = now() where id = $1', [revoked.id]);
    const known = new KnownKeys(parts.connections);
    const authenticate = authenticator(known);
    for (const secret of [createSecret(key.id), revoked.secret]) {
      await assert.rejects(authenticate(`Bearer ${secret}`), code('UNAUTHENTICATED'));
    }
    assert.deepEqual(await createMarkKeysUsed(known).run(parts.engine), { counts: { keys: 0 } });
  });
});

describe('a secret', () => {
  test('names its key, and any other character in it is noticed', () => {
    fc.assert(
      fc.property(fc.uuid(), fc.nat(), fc.constantFrom(...Array.from('abcdefABCDEF0123456789-_')), (id, at, other) => {
        const secret = createSecret(id);
        assert.equal(keyIdOf(secret), id);
        const index = at % secret.length;
        if (secret[index] !== other)
          assert.equal(keyIdOf(secret.slice(0, index) + other + secret.slice(index + 1)), undefined);
      }),
    );
  });
});

describe('the default tenant', () => {
  test('is made once, and its key is kept as long as it works', async () => {
    const { tenantId } = await ensureDefaultTenant(parts.connections);
    assert.deepEqual(await ensureDefaultTenant(parts.connections), { tenantId });
    const secret = await ensureDefaultKey(parts.connections, tenantId, undefined);
    assert.equal(await ensureDefaultKey(parts.connections, tenantId, secret), secret);
    const caller = await authenticator()(`Bearer ${secret}`);
    assert.deepEqual([caller.tenant?.name, [...caller.scopes]], ['default', ['enqueue', 'work', 'read', 'manage']]);
    await run(revokeApiKey, { tenant: 'default', key: caller.id });
    const next = await ensureDefaultKey(parts.connections, tenantId, secret);
    assert.notEqual(next, secret);
    const other = await newKey();
    for (const kept of [other.secret, 'nonsense', createSecret(v7())]) {
      assert.notEqual(await ensureDefaultKey(parts.connections, tenantId, kept), kept);
    }
    assert.equal((await authenticator()(`Bearer ${next}`)).tenant?.id, tenantId);
  });
});
