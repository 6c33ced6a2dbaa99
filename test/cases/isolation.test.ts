import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { operations } from '../../src/operations.js';
import { type Answer, type Client, startTestService, type TestService } from '../helpers/service.js';
import { enqueue, get, lease, leased, leaseOne, settleOk, UNKNOWN_ID } from '../contract/jobs.js';

/*
 * C65: for every operation that takes an id, a name or a token: one tenant's key with another tenant's value gets the answer
 * that it gets for what does not exist, and changes nothing. The walk goes over the table of operations, so that an operation
 * without an entry here fails.
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
  readonly key: string;
}

/** A call with these values; for the same values of no one it must be answered alike. */
type Probe = (client: Client, values: Values) => Promise<Answer>;

const items = ({ token }: Values) => ({ items: [{ leaseToken: token }] });

const probes: Record<string, readonly Probe[] | 'admin' | 'by tenant alone'> = {
  Enqueue: [
    (client, { queue, key }) => client.post(`/v1/queues/${queue}/jobs`, { idempotencyKey: key, payload: 'strange' }),
  ],
  EnqueueBatch: [
    (client, { queue, key }) =>
      client.post('/v1/jobs/batch', { jobs: [{ queue, idempotencyKey: key, kind: 'strange' }] }),
  ],
  Lease: [
    (client, { queue }) => client.post(`/v1/queues/${queue}/lease`, { maxJobs: 10 }),
    (client, { queue }) => client.post('/v1/lease', { queues: [{ name: queue }, { name: 'own' }], maxJobs: 10 }),
    (client, values) => client.post('/v1/queues/own/lease', { settle: { acks: items(values).items } }),
  ],
  Heartbeat: [
    (client, values) => client.post('/v1/leases/heartbeat', items(values)),
    (client, { job, token }) => client.post(`/v1/jobs/${job}/heartbeat`, { leaseToken: token }),
  ],
  Ack: [
    (client, values) => client.post('/v1/leases/ack', items(values)),
    (client, { job, token }) => client.post(`/v1/jobs/${job}/ack`, { leaseToken: token }),
  ],
  Nack: [
    (client, values) => client.post('/v1/leases/nack', items(values)),
    (client, { job, token }) => client.post(`/v1/jobs/${job}/nack`, { leaseToken: token }),
  ],
  Release: [
    (client, values) => client.post('/v1/leases/release', items(values)),
    (client, { job, token }) => client.post(`/v1/jobs/${job}/release`, { leaseToken: token }),
  ],
  Settle: [
    (client, values) => {
      const list = items(values).items;
      return client.post('/v1/leases/settle', { acks: list, nacks: list, releases: list, heartbeats: list });
    },
  ],
  GetJob: [
    (client, { job }) => client.get(`/v1/jobs/${job}`),
    (client, { job }) => client.get(`/v1/jobs/${job}?wait=30s`),
  ],
  ListJobs: [
    (client, { queue }) => client.get(`/v1/queues/${queue}/jobs`),
    (client, { queue, key }) => client.get(`/v1/queues/${queue}/jobs?idempotencyKey=${key}`),
    (client, { key }) => client.get(`/v1/queues/own/jobs?idempotencyKey=${key}`),
    (client, { queue }) => client.get(`/v1/queues/${queue}/dead`),
  ],
  UpdateJob: [(client, { job }) => client.patch(`/v1/jobs/${job}`, { priority: 1 })],
  CancelJob: [(client, { job }) => client.post(`/v1/jobs/${job}/cancel`, { force: true })],
  ListQueues: 'by tenant alone',
  GetQueue: [(client, { queue }) => client.get(`/v1/queues/${queue}`)],
  PutQueue: [
    (client, { queue }) => client.put('/v1/queues/own-2', { deadLetterQueue: queue }),
    (client, { queue }) => client.put(`/v1/queues/${queue}`, { maxAttempts: 1 }),
  ],
  DeleteQueue: [(client, { queue }) => client.delete(`/v1/queues/${queue}?force=true`)],
  PauseQueue: [(client, { queue }) => client.post(`/v1/queues/${queue}/pause`)],
  ResumeQueue: [(client, { queue }) => client.post(`/v1/queues/${queue}/resume`)],
  PurgeQueue: [(client, { queue }) => client.post(`/v1/queues/${queue}/purge`)],
  GetQueueStats: [(client, { queue }) => client.get(`/v1/queues/${queue}/stats`)],
  RedriveDead: [
    (client, { queue }) => client.post(`/v1/queues/${queue}/dead/redrive`, {}),
    (client, { dead }) => client.post('/v1/queues/own/dead/redrive', { ids: [dead] }),
    (client, { queue }) => client.post('/v1/queues/own/dead/redrive', { toQueue: queue }),
  ],
  DeleteDead: [
    (client, { queue }) => client.post(`/v1/queues/${queue}/dead/delete`, {}),
    (client, { dead }) => client.post('/v1/queues/own/dead/delete', { ids: [dead] }),
  ],
  CreateTenant: 'admin',
  ListTenants: 'admin',
  GetTenant: 'admin',
  CreateApiKey: 'admin',
  ListApiKeys: 'admin',
  RevokeApiKey: 'admin',
};

/** Operations that make what they name: a name of another tenant's is a name like any other, and theirs is untouched. */
const MAKING = new Set(['Enqueue', 'EnqueueBatch', 'PutQueue']);

before(async () => {
  service = await startTestService();
  [owner, stranger] = [await service.tenant(), await service.tenant()];
  await enqueue(stranger, 'own');
  await lease(stranger, 'own', { visibilityTimeout: '12h' });
  const key = 'secret-key';
  const job = await leased(owner, 'theirs', { idempotencyKey: key, payload: 'secret' }, { visibilityTimeout: '12h' });
  const dead = await leased(owner, 'theirs');
  await settleOk(owner, 'nack', dead, { final: true });
  await enqueue(owner, 'theirs', { payload: 'waits' });
  theirs = { queue: 'theirs', job: job.id, dead: dead.id, token: job.leaseToken, key };
  missing = {
    queue: 'nowhere',
    job: UNKNOWN_ID,
    dead: UNKNOWN_ID,
    token: tokenOfNobody(job.leaseToken),
    key: 'no-such-key',
  };
});
after(() => service.stop());

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
    .replaceAll(/"leaseToken":"[^"]*"/g, '');
  return { status, type: headers.get('content-type'), plain };
}

/** Everything of the owner's that a stranger might change. */
async function standing(): Promise<unknown> {
  const queue = (await owner.get('/v1/queues/theirs')).body;
  const jobs = (await owner.get('/v1/queues/theirs/jobs?include=payload,result,attempts')).body.jobs;
  return { queue, jobs, queues: (await owner.get('/v1/queues')).body.queues.length };
}

test('C65: every operation of the table has an entry here, and no entry is without its operation', () => {
  assert.deepEqual(Object.keys(probes).sort(), operations.map(({ name }) => name).sort());
});

for (const { name, scopes, http } of operations) {
  const probe = probes[name];
  if (probe === 'admin') {
    test(`C65: ${name} is refused to every key of a tenant`, async () => {
      assert.deepEqual(scopes, ['admin']);
      for (const { method, path } of http) {
        const answer = await stranger.request(
          method,
          path.replace(/:\w+/g, UNKNOWN_ID),
          method === 'POST' ? {} : undefined,
        );
        assert.deepEqual([answer.status, answer.body.code], [403, 'PERMISSION_DENIED']);
      }
    });
  } else if (probe === 'by tenant alone') {
    test(`C65: ${name} shows nothing of another tenant's`, async () => {
      for (const { method, path } of http) {
        assert.doesNotMatch(path, /:/);
        const answer = await stranger.request(method, path);
        assert.equal(answer.status, 200);
        assert.ok(!answer.text.includes('"theirs"'), answer.text);
      }
    });
  } else if (probe !== undefined) {
    test(`C65: ${name} with another tenant's value is answered as for what does not exist, and changes nothing`, async () => {
      const before = await standing();
      for (const ask of probe) {
        // A name that was asked for before may be the stranger's own by now.
        const asker = MAKING.has(name) ? await service.tenant() : stranger;
        const started = performance.now();
        const [real, none] = [await ask(asker, theirs), await ask(asker, missing)];
        assert.deepEqual(said(real, theirs), said(none, missing));
        assert.ok(!real.text.includes('secret"') && !real.text.includes('waits'), real.text);
        assert.ok(performance.now() - started < 10_000, 'it was waited for');
      }
      assert.deepEqual(await standing(), before);
    });
  }
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

test('C65: a tenant cannot be named in a body, a query or a header', async () => {
  const tenantId = (await service.admin.get('/v1/admin/tenants')).body.tenants[0].id as string;
  for (const field of ['tenant', 'tenantId']) {
    assert.equal((await stranger.post('/v1/queues/theirs/jobs', { [field]: tenantId })).status, 400);
    assert.equal((await stranger.get(`/v1/queues/own?${field}=${tenantId}`)).status, 400);
  }
  const answer = await stranger.request('GET', `/v1/jobs/${theirs.job}`, undefined, {
    headers: { 'x-tenant-id': tenantId },
  });
  assert.equal(answer.status, 404);
});
