import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, CONFLICT, enqueue, invalid, NOT_FOUND, UNKNOWN_ID } from './jobs.js';

const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
let service: TestService;
let admin: Client;

before(async () => {
  service = await startTestService();
  admin = service.admin;
});
after(() => service.stop());

test('a tenant is made with 201, found by id and by name, and listed', async () => {
  const made = await admin.post('/v1/admin/tenants', { name: 'acme' });
  assert.equal(made.status, 201);
  assert.deepEqual([made.body.name, made.body.autoCreateQueues], ['acme', true]);
  assert.match(made.body.id, /^[0-9a-f-]{36}$/);
  for (const one of ['acme', made.body.id]) {
    assert.deepEqual((await admin.get(`/v1/admin/tenants/${one}`)).body, made.body);
  }
  const { tenants } = (await admin.get('/v1/admin/tenants')).body;
  assert.ok(tenants.some(({ id }: { id: string }) => id === made.body.id));
});

test('a name that is taken is CONFLICT; one that is none is refused with the form it must have', async () => {
  assert.equal((await admin.post('/v1/admin/tenants', { name: 'once' })).status, 201);
  assertProblem(await admin.post('/v1/admin/tenants', { name: 'once' }), CONFLICT);
  for (const name of ['', ' x', 'a/b', 'x'.repeat(81), UNKNOWN_ID, 'ä']) {
    assertProblem(await admin.post('/v1/admin/tenants', { name }), invalid('name'));
  }
  assertProblem(await admin.post('/v1/admin/tenants', {}), invalid('name', /required/));
  assertProblem(
    await admin.post('/v1/admin/tenants', { name: 'x', plan: 'gold' }),
    invalid('plan', /not a known field/),
  );
});

test('an unknown tenant is NOT_FOUND, by id and by name', async () => {
  for (const tenant of ['nobody', UNKNOWN_ID]) {
    assertProblem(await admin.get(`/v1/admin/tenants/${tenant}`), NOT_FOUND);
    assertProblem(await admin.get(`/v1/admin/tenants/${tenant}/keys`), NOT_FOUND);
    assertProblem(await admin.post(`/v1/admin/tenants/${tenant}/keys`, { name: 'k', scopes: ['read'] }), NOT_FOUND);
    assertProblem(await admin.delete(`/v1/admin/tenants/${tenant}/keys/k`), NOT_FOUND);
  }
});

test('a key shows its secret once, works from then on, and no more once it is revoked', async () => {
  await admin.post('/v1/admin/tenants', { name: 'keys' });
  const made = await admin.post('/v1/admin/tenants/keys/keys', { name: 'producer', scopes: ['enqueue'] });
  assert.equal(made.status, 201);
  const client = clientFor(service.base, made.body.secret as string);
  await enqueue(client, 'mail');
  const listed = await admin.get('/v1/admin/tenants/keys/keys');
  assert.deepEqual(
    listed.body.keys.map(({ name, scopes }: any) => [name, scopes]),
    [['producer', ['enqueue']]],
  );
  assert.ok(!listed.text.includes(made.body.secret as string));
  assert.equal((await admin.delete('/v1/admin/tenants/keys/keys/producer')).status, 200);
  assertProblem(await client.post('/v1/queues/mail/jobs', {}), UNAUTHENTICATED);
});

test('a key is refused within 5 s of its revocation on other instances too', async () => {
  await admin.post('/v1/admin/tenants', { name: 'far' });
  const { body } = await admin.post('/v1/admin/tenants/far/keys', { name: 'k', scopes: ['enqueue'] });
  const other = await service.another();
  try {
    const client = clientFor(other.base, body.secret as string);
    await enqueue(client, 'mail');
    await admin.delete('/v1/admin/tenants/far/keys/k');
    const refused = async () => (await client.post('/v1/queues/mail/jobs', {})).status === 401;
    await until('the key is refused', refused, 6_000);
  } finally {
    await other.stop();
  }
});

test('a key that expires is refused from then on', async () => {
  await admin.post('/v1/admin/tenants', { name: 'short' });
  const keys = '/v1/admin/tenants/short/keys';
  assertProblem(
    await admin.post(keys, { name: 'k', scopes: ['read'], expiresAt: '2001-01-01T00:00:00Z' }),
    invalid('expiresAt'),
  );
  const { body } = await admin.post(keys, { name: 'k', scopes: ['read'], expiresAt: '2101-01-01T00:00:00Z' });
  assert.equal(body.expiresAt, '2101-01-01T00:00:00.000000Z');
  await service.sql(`update stint.api_key set expires_at = now() - interval '1 s' where id = $1`, [body.id]);
  assertProblem(await clientFor(service.base, body.secret as string).get('/v1/queues'), UNAUTHENTICATED);
});

test('scopes are known ones, at least one, each once, and never admin', async () => {
  await admin.post('/v1/admin/tenants', { name: 'scoped' });
  const create = (scopes: unknown) => admin.post('/v1/admin/tenants/scoped/keys', { name: 'k', scopes });
  assertProblem(await create(['admin']), invalid('scopes[0]', /one of/));
  assertProblem(await create(['write']), invalid('scopes[0]', /one of/));
  assertProblem(await create([]), invalid('scopes'));
  assertProblem(await create(['read', 'read']), invalid('scopes'));
  assertProblem(await create(undefined), invalid('scopes', /required/));
  assert.equal((await create(['read'])).status, 201);
  assertProblem(await create(['read']), CONFLICT);
});

test('two tenants share no names: queues, jobs and idempotency keys of the one do not exist for the other', async () => {
  const [a, b] = [await service.tenant(), await service.tenant()];
  const id = await enqueue(a, 'mail', { idempotencyKey: 'k', payload: 1 });
  const other = await b.post('/v1/queues/mail/jobs', { idempotencyKey: 'k', payload: 2 });
  assert.equal(`${other.status} ${other.body.deduplicated}`, '201 false');
  assertProblem(await b.get(`/v1/jobs/${id}`), NOT_FOUND);
  assert.equal((await b.get('/v1/queues/mail')).body.counts.ready, 1);
});

test('a tenant without autoCreateQueues has to make its queues first', async () => {
  const client = await service.tenant({ autoCreateQueues: false });
  assertProblem(await client.post('/v1/queues/new/jobs', {}), { ...NOT_FOUND, fields: ['queue'] });
  const jobs = [{ queue: 'new' }];
  assertProblem(await client.post('/v1/jobs/batch', { jobs }), { ...NOT_FOUND, fields: ['jobs[0].queue'] });
  assertProblem(await client.post('/v1/queues/new/lease', {}), NOT_FOUND);
  assert.equal((await client.put('/v1/queues/new')).status, 200);
  await enqueue(client, 'new');
});
