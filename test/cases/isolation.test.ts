import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { HttpBinding, Operation } from '../../src/core/operation.js';
import { takesBody } from '../../src/http/input.js';
import { operations } from '../../src/operations.js';
import { grpcClient } from '../helpers/grpc.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  enqueue,
  get,
  invalid,
  lease,
  leased,
  leaseOne,
  settleOk,
  UNKNOWN_ID,
} from '../contract/jobs.js';

/*
 * C65: for every operation that takes an id, a name or a token: one tenant's key with another tenant's value gets the answer
 * that it gets for what does not exist, and changes nothing. For an administrator, who names the tenant, the same holds of a key
 * that is not that tenant's. The walk goes over the table of operations, so that an operation without an entry here fails.
 */

let service: TestService;
let stranger: Client;
let owner: Client;
let theirs: Values;
let missing: Values;

interface Values {
  readonly queue: string;
  readonly job: string;
  readonly dead: string;
  readonly token: string;
  /** An idempotency key. */
  readonly key: string;
  readonly schedule: string;
  readonly webhook: string;
  readonly apiKey: string;
  readonly apiKeyName: string;
  readonly adminKey: string;
  readonly adminKeyName: string;
  readonly tenant: string;
  readonly tenantName: string;
}

/** A call with these values; for the same values of no one it must be answered alike. */
type Probe = (client: Client, values: Values) => Promise<Answer>;

/** What an administrator asks for in the tenant of that name. */
type AdminProbe = (admin: Client, values: Values, tenant: string) => Promise<Answer>;

type Entry =
  | { readonly asTenant: readonly Probe[] }
  | { readonly asAdmin: readonly AdminProbe[]; readonly byTenantsName?: readonly Probe[] }
  | 'by tenant alone';

const items = ({ token }: Values) => ({ items: [{ leaseToken: token }] });

const keyNames = ['apiKey', 'apiKeyName', 'adminKey', 'adminKeyName'] as const;
const tenantKeyNames = ['apiKey', 'apiKeyName'] as const;
const tenantNames = ['tenant', 'tenantName'] as const;
const tenantPath = (tenant: string): string => `/v1/admin/tenants/${tenant}`;

const entries: Record<string, Entry> = {
  Enqueue: {
    asTenant: [
      (client, { queue, key }) => client.post(`/v1/queues/${queue}/jobs`, { idempotencyKey: key, payload: 'strange' }),
    ],
  },
  EnqueueBatch: {
    asTenant: [
      (client, { queue, key }) =>
        client.post('/v1/jobs/batch', { jobs: [{ queue, idempotencyKey: key, kind: 'strange' }] }),
    ],
  },
  Lease: {
    asTenant: [
      (client, { queue }) => client.post(`/v1/queues/${queue}/lease`, { maxJobs: 10 }),
      (client, { queue }) => client.post('/v1/lease', { queues: [{ name: queue }, { name: 'own' }], maxJobs: 10 }),
      (client, values) => client.post('/v1/queues/own/lease', { settle: { acks: items(values).items } }),
    ],
  },
  Heartbeat: {
    asTenant: [
      (client, values) => client.post('/v1/leases/heartbeat', items(values)),
      (client, { job, token }) => client.post(`/v1/jobs/${job}/heartbeat`, { leaseToken: token }),
    ],
  },
  Ack: {
    asTenant: [
      (client, values) => client.post('/v1/leases/ack', items(values)),
      (client, { job, token }) => client.post(`/v1/jobs/${job}/ack`, { leaseToken: token }),
    ],
  },
  Nack: {
    asTenant: [
      (client, values) => client.post('/v1/leases/nack', items(values)),
      (client, { job, token }) => client.post(`/v1/jobs/${job}/nack`, { leaseToken: token }),
    ],
  },
  Release: {
    asTenant: [
      (client, values) => client.post('/v1/leases/release', items(values)),
      (client, { job, token }) => client.post(`/v1/jobs/${job}/release`, { leaseToken: token }),
    ],
  },
  Settle: {
    asTenant: [
      (client, values) => {
        const list = items(values).items;
        return client.post('/v1/leases/settle', { acks: list, nacks: list, releases: list, heartbeats: list });
      },
    ],
  },
  GetJob: {
    asTenant: [
      (client, { job }) => client.get(`/v1/jobs/${job}`),
      (client, { job }) => client.get(`/v1/jobs/${job}?wait=30s`),
    ],
  },
  ListJobs: {
    asTenant: [
      (client, { queue }) => client.get(`/v1/queues/${queue}/jobs`),
      (client, { queue, key }) => client.get(`/v1/queues/${queue}/jobs?idempotencyKey=${key}`),
      (client, { key }) => client.get(`/v1/queues/own/jobs?idempotencyKey=${key}`),
      (client, { queue }) => client.get(`/v1/queues/${queue}/dead`),
    ],
  },
  UpdateJob: { asTenant: [(client, { job }) => client.patch(`/v1/jobs/${job}`, { priority: 1 })] },
  CancelJob: { asTenant: [(client, { job }) => client.post(`/v1/jobs/${job}/cancel`, { force: true })] },
  ListQueues: 'by tenant alone',
  GetQueue: { asTenant: [(client, { queue }) => client.get(`/v1/queues/${queue}`)] },
  PutQueue: {
    asTenant: [
      (client, { queue }) => client.put('/v1/queues/own-2', { deadLetterQueue: queue }),
      (client, { queue }) => client.put(`/v1/queues/${queue}`, { maxAttempts: 1 }),
    ],
  },
  DeleteQueue: { asTenant: [(client, { queue }) => client.delete(`/v1/queues/${queue}?force=true`)] },
  PauseQueue: { asTenant: [(client, { queue }) => client.post(`/v1/queues/${queue}/pause`)] },
  ResumeQueue: { asTenant: [(client, { queue }) => client.post(`/v1/queues/${queue}/resume`)] },
  PurgeQueue: { asTenant: [(client, { queue }) => client.post(`/v1/queues/${queue}/purge`)] },
  GetQueueStats: { asTenant: [(client, { queue }) => client.get(`/v1/queues/${queue}/stats`)] },
  RedriveDead: {
    asTenant: [
      (client, { queue }) => client.post(`/v1/queues/${queue}/dead/redrive`, {}),
      (client, { dead }) => client.post('/v1/queues/own/dead/redrive', { ids: [dead] }),
      (client, { queue }) => client.post('/v1/queues/own/dead/redrive', { toQueue: queue }),
    ],
  },
  DeleteDead: {
    asTenant: [
      (client, { queue }) => client.post(`/v1/queues/${queue}/dead/delete`, {}),
      (client, { dead }) => client.post('/v1/queues/own/dead/delete', { ids: [dead] }),
    ],
  },
  ListSchedules: 'by tenant alone',
  GetSchedule: { asTenant: [(client, { schedule }) => client.get(`/v1/schedules/${schedule}`)] },
  PutSchedule: {
    asTenant: [
      (client, { schedule, queue }) =>
        client.put(`/v1/schedules/${schedule}`, { cron: '0 5 1 1 *', queue, kind: 'strange' }),
    ],
  },
  DeleteSchedule: { asTenant: [(client, { schedule }) => client.delete(`/v1/schedules/${schedule}`)] },
  PauseSchedule: { asTenant: [(client, { schedule }) => client.post(`/v1/schedules/${schedule}/pause`)] },
  ResumeSchedule: { asTenant: [(client, { schedule }) => client.post(`/v1/schedules/${schedule}/resume`)] },
  RunSchedule: { asTenant: [(client, { schedule }) => client.post(`/v1/schedules/${schedule}/run`)] },
  // Name nothing that is anybody's.
  PreviewSchedule: { asTenant: [] },
  Tick: { asTenant: [] },
  ListWebhooks: 'by tenant alone',
  GetWebhook: { asTenant: [(client, { webhook }) => client.get(`/v1/webhooks/${webhook}`)] },
  PutWebhook: {
    asTenant: [
      (client, { webhook }) =>
        client.put(`/v1/webhooks/${webhook}`, { url: 'https://strange.invalid/', events: ['job.dead'] }),
    ],
  },
  DeleteWebhook: { asTenant: [(client, { webhook }) => client.delete(`/v1/webhooks/${webhook}`)] },
  RotateWebhookSecret: { asTenant: [(client, { webhook }) => client.post(`/v1/webhooks/${webhook}/rotate`, {})] },
  TestWebhook: { asTenant: [(client, { webhook }) => client.post(`/v1/webhooks/${webhook}/test`)] },
  RedriveDeliveries: { asTenant: [(client, { webhook }) => client.post(`/v1/webhooks/${webhook}/redrive`)] },
  GetOwnTenant: 'by tenant alone',
  ListOwnKeys: 'by tenant alone',
  CreateOwnKey: {
    asTenant: [(client, { apiKeyName }) => client.post('/v1/keys', { name: apiKeyName, scopes: ['read'] })],
  },
  RotateOwnKey: {
    asTenant: keyNames.map((name) => (client, values) => client.post(`/v1/keys/${values[name]}/rotate`, {})),
  },
  RevokeOwnKey: {
    asTenant: keyNames.map((name) => (client, values) => client.delete(`/v1/keys/${values[name]}`)),
  },
  ListOwnAuditEvents: 'by tenant alone',
  CreateTenant: { asAdmin: [] },
  ListTenants: { asAdmin: [] },
  GetTenant: {
    asAdmin: [],
    byTenantsName: tenantNames.map((name) => (admin, values) => admin.get(tenantPath(values[name]))),
  },
  UpdateTenant: {
    asAdmin: [],
    byTenantsName: tenantNames.map(
      (name) => (admin, values) => admin.patch(tenantPath(values[name]), { limits: { queues: 1 } }),
    ),
  },
  SuspendTenant: {
    asAdmin: [],
    byTenantsName: tenantNames.map((name) => (admin, values) => admin.post(`${tenantPath(values[name])}/suspend`)),
  },
  ResumeTenant: {
    asAdmin: [],
    byTenantsName: tenantNames.map((name) => (admin, values) => admin.post(`${tenantPath(values[name])}/resume`)),
  },
  DeleteTenant: {
    asAdmin: [],
    byTenantsName: tenantNames.map((name) => (admin, values) => admin.delete(tenantPath(values[name]))),
  },
  CreateApiKey: {
    asAdmin: [],
    byTenantsName: tenantNames.map(
      (name) => (admin, values) => admin.post(`${tenantPath(values[name])}/keys`, { name: 'new', scopes: ['read'] }),
    ),
  },
  ListApiKeys: {
    asAdmin: [],
    byTenantsName: tenantNames.map((name) => (admin, values) => admin.get(`${tenantPath(values[name])}/keys`)),
  },
  RotateApiKey: {
    asAdmin: keyNames.map(
      (name) => (admin, values, tenant) => admin.post(`${tenantPath(tenant)}/keys/${values[name]}/rotate`, {}),
    ),
    byTenantsName: tenantNames.map(
      (name) => (admin, values) => admin.post(`${tenantPath(values[name])}/keys/no-such-key/rotate`, {}),
    ),
  },
  RevokeApiKey: {
    asAdmin: keyNames.map(
      (name) => (admin, values, tenant) => admin.delete(`${tenantPath(tenant)}/keys/${values[name]}`),
    ),
    byTenantsName: tenantNames.map(
      (name) => (admin, values) => admin.delete(`${tenantPath(values[name])}/keys/no-such-key`),
    ),
  },
  CreateAdminKey: { asAdmin: [] },
  ListAdminKeys: { asAdmin: [] },
  RotateAdminKey: {
    asAdmin: tenantKeyNames.map((name) => (admin, values) => admin.post(`/v1/admin/keys/${values[name]}/rotate`, {})),
  },
  RevokeAdminKey: {
    asAdmin: tenantKeyNames.map((name) => (admin, values) => admin.delete(`/v1/admin/keys/${values[name]}`)),
  },
  ListAuditEvents: {
    asAdmin: [],
    byTenantsName: [(admin, { tenantName }) => admin.get(`/v1/admin/audit?tenant=${tenantName}`)],
  },
};

/** Operations that make what they name: a name of another tenant's is a name like any other, and theirs is untouched. */
const MAKING = new Set(['Enqueue', 'EnqueueBatch', 'PutQueue', 'PutSchedule', 'PutWebhook', 'CreateOwnKey']);

before(async () => {
  service = await startTestService();
  owner = await service.tenant();
  stranger = await service.tenant({ scopes: ['enqueue', 'work', 'read', 'manage', 'tick'] });
  await enqueue(stranger, 'own');
  await lease(stranger, 'own', { visibilityTimeout: '12h' });
  const key = 'secret-key';
  const job = await leased(owner, 'theirs', { idempotencyKey: key, payload: 'secret' }, { visibilityTimeout: '12h' });
  const dead = await leased(owner, 'theirs');
  await settleOk(owner, 'nack', dead, { final: true });
  await enqueue(owner, 'theirs', { payload: 'waits' });
  const schedule = await owner.put('/v1/schedules/their-schedule', {
    cron: '0 5 1 1 *',
    queue: 'theirs',
    payload: 'secret',
  });
  assert.equal(schedule.status, 200, schedule.text);
  const webhook = await owner.put('/v1/webhooks/their-webhook', {
    url: 'https://theirs.invalid/secret',
    events: ['job.dead'],
    paused: true,
  });
  assert.equal(webhook.status, 201, webhook.text);
  const tenant = (await owner.get('/v1/tenant')).body;
  const apiKey = await made(owner.post('/v1/keys', { name: 'their-key', scopes: ['read'] }));
  const adminKey = await made(service.admin.post('/v1/admin/keys', { name: 'on-call' }));
  theirs = {
    queue: 'theirs',
    job: job.id,
    dead: dead.id,
    token: job.leaseToken,
    key,
    schedule: 'their-schedule',
    webhook: 'their-webhook',
    apiKey: apiKey.id,
    apiKeyName: apiKey.name,
    adminKey: adminKey.id,
    adminKeyName: adminKey.name,
    tenant: tenant.id,
    tenantName: tenant.name,
  };
  missing = {
    queue: 'nowhere',
    job: UNKNOWN_ID,
    dead: UNKNOWN_ID,
    token: tokenOfNobody(job.leaseToken),
    key: 'no-such-key',
    schedule: 'no-such-schedule',
    webhook: 'no-such-webhook',
    apiKey: UNKNOWN_ID,
    apiKeyName: 'no-such-api-key',
    adminKey: UNKNOWN_ID,
    adminKeyName: 'no-such-admin-key',
    tenant: UNKNOWN_ID,
    tenantName: 'no-such-tenant',
  };
});
after(() => service.stop());

async function made(answer: Promise<Answer>): Promise<{ readonly id: string; readonly name: string }> {
  const { status, body, text } = await answer;
  assert.equal(status, 201, text);
  return body as { id: string; name: string };
}

/** A token for a job that does not exist, in a queue that does not. */
function tokenOfNobody(token: string): string {
  const bytes = Buffer.from(token, 'base64url');
  bytes.writeUInt32BE(2_000_000_000, 1);
  bytes.write(UNKNOWN_ID.replaceAll('-', ''), 5, 'hex');
  return bytes.toString('base64url');
}

/** What may differ between two answers that say the same: request ids, times, fresh ids, and the names that were asked for. */
function said({ status, headers, text }: Answer, values: Values): unknown {
  let plain = text;
  for (const [name, value] of Object.entries(values)) plain = plain.replaceAll(value as string, name);
  plain = plain
    .replaceAll(/"requestId":"[^"]*"/g, '')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'id')
    .replaceAll(/"leaseToken":"[^"]*"/g, '')
    .replaceAll(/"secret":"[^"]*"/g, '');
  return { status, type: headers.get('content-type'), plain };
}

/** Everything of the owner's, and of the administrator's, that a stranger might change. */
async function standing(): Promise<unknown> {
  const queue = (await owner.get('/v1/queues/theirs')).body;
  const jobs = (await owner.get('/v1/queues/theirs/jobs?include=payload,result,attempts')).body.jobs;
  const { queues } = (await owner.get('/v1/queues')).body;
  const tenants = await service.sql('select * from stint.tenant where id = $1', [theirs.tenant]);
  const keys = await service.sql(
    `select to_jsonb(k) - 'last_used_at' as key
     from stint.api_key k
     where tenant_id = $1 or tenant_id is null
     order by id`,
    [theirs.tenant],
  );
  const schedules = await service.sql('select * from stint.schedule where tenant_id = $1', [theirs.tenant]);
  const webhooks = await service.sql('select * from stint.webhook where tenant_id = $1', [theirs.tenant]);
  return { queue, jobs, queues: queues.length, schedules, webhooks, tenants, keys };
}

test('C65: every operation of the table has an entry here, and no entry is without its operation', () => {
  assert.deepEqual(Object.keys(entries).sort(), operations.map(({ name }) => name).sort());
});

for (const { name, scopes, http } of operations) {
  const entry = entries[name];
  if (entry === 'by tenant alone') {
    test(`C65: ${name} shows nothing of another tenant's`, async () => {
      for (const { method, path } of http) {
        assert.doesNotMatch(path, /:/);
        const answer = await stranger.request(method, path);
        assert.equal(answer.status, 200, answer.text);
        for (const value of Object.values(theirs)) assert.ok(!answer.text.includes(value as string), answer.text);
      }
    });
  } else if (entry !== undefined && 'asAdmin' in entry) {
    test(`C65: ${name} is refused to every key of a tenant`, async () => {
      assert.deepEqual(scopes, ['admin']);
      const before = await standing();
      for (const { method, path } of http) {
        const target = path.replace(':tenant', theirs.tenant).replace(':key', theirs.apiKey);
        const body = method === 'POST' || method === 'PATCH' ? {} : undefined;
        for (const client of [stranger, owner]) {
          const answer = await client.request(method, target, body);
          assert.deepEqual([answer.status, answer.body.code], [403, 'PERMISSION_DENIED']);
        }
      }
      assert.deepEqual(await standing(), before);
    });
    for (const ask of entry.byTenantsName ?? []) {
      test(`C65: ${name} for a tenant that is not there is NOT_FOUND`, async () => {
        assertProblem(await ask(service.admin, missing), { status: 404, code: 'NOT_FOUND' });
      });
    }
    if (entry.asAdmin.length > 0) {
      test(`C65: ${name} with a key of elsewhere is answered as for one that does not exist, and changes nothing`, async () => {
        const before = await standing();
        const tenant = (await stranger.get('/v1/tenant')).body.name as string;
        for (const ask of entry.asAdmin) {
          const [real, none] = [await ask(service.admin, theirs, tenant), await ask(service.admin, missing, tenant)];
          assert.equal(real.status, 404);
          assert.deepEqual(said(real, theirs), said(none, missing));
        }
        assert.deepEqual(await standing(), before);
      });
    }
  } else if (entry !== undefined) {
    test(`C65: ${name} with another tenant's value is answered as for what does not exist, and changes nothing`, async () => {
      const before = await standing();
      for (const ask of entry.asTenant) {
        // A name that was asked for before may be the stranger's own by now.
        const asker = MAKING.has(name) ? await service.tenant() : stranger;
        const started = performance.now();
        const [real, none] = [await ask(asker, theirs), await ask(asker, missing)];
        assert.deepEqual(said(real, theirs), said(none, missing));
        assert.ok(!real.text.includes(':"secret"') && !real.text.includes('waits'), real.text);
        assert.ok(performance.now() - started < 10_000, 'it was waited for');
      }
      assert.deepEqual(await standing(), before);
    });
  }
}

test('C65: a cursor of another tenant’s list goes on in one’s own', async () => {
  const page = (await owner.get('/v1/keys?limit=1')).body;
  const [own] = (await stranger.get('/v1/keys')).body.keys;
  const { keys } = (await stranger.get(`/v1/keys?cursor=${page.nextCursor}`)).body;
  assert.deepEqual(
    keys.filter(({ id }: { id: string }) => id !== own.id),
    [],
  );
});

test('C65: a batch of leases of one’s own and of another tenant settles one’s own alone', async () => {
  const own = await leased(stranger, 'own-mixed');
  const before = await standing();
  const items = [{ leaseToken: theirs.token }, { leaseToken: own.leaseToken }];
  const { body } = await stranger.post('/v1/leases/ack', { items });
  assert.deepEqual(
    body.results.map(({ outcome }: { outcome: string }) => outcome),
    ['NOT_FOUND', 'OK'],
  );
  assert.deepEqual(await standing(), before);
});

test('C64, C65: a worker stream is sent no job of another tenant, and settles none', async () => {
  const before = await standing();
  const grpc = grpcClient(service.grpc, stranger.key);
  const worker = grpc.work();
  try {
    worker.send({ hello: { queues: [{ name: 'theirs' }], credits: 10 } });
    worker.send({ settle: { id: 1, items: { acks: [{ leaseToken: theirs.token }] } } });
    await until('it is answered', () => worker.received.length > 0);
    const [{ settled }] = worker.received;
    assert.deepEqual(
      settled.results.acks.map(({ outcome }: { outcome: string }) => outcome),
      ['SETTLE_OUTCOME_NOT_FOUND'],
    );
    // A job of its own comes over the same stream after anything that might have come before it.
    await enqueue(stranger, 'theirs', { payload: 'own' });
    await until('its own job comes', () => worker.received.length > 1);
    const jobs = worker.received.flatMap((message) => message.jobs?.jobs ?? []);
    assert.deepEqual(
      jobs.map(({ payload }: { payload: Buffer }) => payload.toString()),
      ['"own"'],
    );
  } finally {
    worker.stream.cancel();
    await worker.ended;
    grpc.close();
  }
  assert.deepEqual(await standing(), before);
});

/** What the body of that route must have, so that nothing else is wrong with it. */
function requiredOf(binding: HttpBinding, input: Operation['input']): object {
  const { required = [] } = (binding.form?.input ?? input) as { required?: readonly string[] };
  const sound: Record<string, unknown> = {
    jobs: [{ queue: 'own' }],
    items: [{ leaseToken: theirs.token }],
    leaseToken: theirs.token,
    name: 'new',
    scopes: ['read'],
    queue: 'own',
    url: 'https://own.invalid/',
    events: ['job.dead'],
  };
  const given = required.filter((name) => name in sound && !binding.path.includes(`:${name}`));
  return Object.fromEntries(given.map((name) => [name, sound[name]]));
}

test('C65: the probes reach their operations: with the owner’s key the same values are found', async () => {
  assert.equal((await get(owner, theirs.job)).payload, 'secret');
  await settleOk(owner, 'ack', { id: theirs.job, leaseToken: theirs.token });
  assert.deepEqual((await owner.post('/v1/queues/theirs/dead/redrive', { ids: [theirs.dead] })).body, {
    matched: 1,
    redriven: 1,
  });
  assert.equal((await leaseOne(owner, 'theirs')).payload, 'waits');
});

for (const { name, scopes, http, input } of operations.filter((each) => !each.scopes.includes('admin'))) {
  test(`C64: ${name} takes no tenant from a body, a query or a header`, async () => {
    assert.ok(scopes.length > 0);
    for (const binding of http) {
      const target = binding.path.replaceAll(':id', UNKNOWN_ID).replaceAll(/:\w+/g, 'theirs');
      for (const field of ['tenant', 'tenantId', 'tenant_id']) {
        const answer = takesBody(binding)
          ? await stranger.request(binding.method, target, { ...requiredOf(binding, input), [field]: theirs.tenant })
          : await stranger.request(binding.method, `${target}?${field}=${theirs.tenant}`);
        assert.equal(answer.status, 400, answer.text);
        assert.ok(answer.body.errors.some((error: { field: string }) => error.field === field));
      }
    }
  });
}

test('C64: a header names no tenant', async () => {
  const rest = await fetch(`${service.base}/v1/jobs/${theirs.job}`, {
    headers: {
      authorization: `Bearer ${stranger.key}`,
      'x-tenant-id': theirs.tenant,
      'x-stint-tenant': theirs.tenantName,
      tenant: theirs.tenant,
    },
  });
  assert.equal(rest.status, 404);
});

test('C64: an item of a batch names no tenant', async () => {
  for (const field of ['tenant', 'tenantId']) {
    const job = { queue: 'own', [field]: theirs.tenant };
    assertProblem(await stranger.post('/v1/jobs/batch', { jobs: [job] }), invalid(`jobs[0].${field}`));
  }
});

test('C64: two credentials in one call are refused, and none is chosen', async () => {
  const answer = await fetch(`${service.base}/v1/queues`, {
    headers: { authorization: `Bearer ${stranger.key}, Bearer ${owner.key}` },
  });
  assert.equal(answer.status, 401);
  assert.equal((await clientFor(service.base, `${stranger.key} ${owner.key}`).get('/v1/queues')).status, 401);
});
