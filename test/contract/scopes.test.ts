import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { HttpBinding, Scope } from '../../src/core/operation.js';
import { operations } from '../../src/operations.js';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { assertProblem, UNKNOWN_ID } from './jobs.js';

/*
 * Every operation × every scope. The table below is the contract; the service's own must agree with it, so that an operation
 * without its place here fails, and so does one whose scopes were changed by mistake.
 */

const ALLOWED: Readonly<Record<string, readonly Scope[]>> = {
  Enqueue: ['enqueue'],
  EnqueueBatch: ['enqueue'],
  Lease: ['work'],
  Heartbeat: ['work'],
  Ack: ['work'],
  Nack: ['work'],
  Release: ['work'],
  Settle: ['work'],
  GetJob: ['work', 'read', 'manage'],
  ListJobs: ['read', 'manage'],
  UpdateJob: ['manage'],
  CancelJob: ['manage'],
  ListQueues: ['read', 'manage'],
  GetQueue: ['read', 'manage'],
  PutQueue: ['manage'],
  DeleteQueue: ['manage'],
  PauseQueue: ['manage'],
  ResumeQueue: ['manage'],
  PurgeQueue: ['manage'],
  GetQueueStats: ['read', 'manage'],
  RedriveDead: ['manage'],
  DeleteDead: ['manage'],
  ListSchedules: ['read', 'manage'],
  GetSchedule: ['read', 'manage'],
  PutSchedule: ['manage'],
  DeleteSchedule: ['manage'],
  PauseSchedule: ['manage'],
  ResumeSchedule: ['manage'],
  RunSchedule: ['manage'],
  PreviewSchedule: ['read', 'manage'],
  Tick: ['tick'],
  ListWebhooks: ['read', 'manage'],
  GetWebhook: ['read', 'manage'],
  PutWebhook: ['manage'],
  DeleteWebhook: ['manage'],
  RotateWebhookSecret: ['manage'],
  TestWebhook: ['manage'],
  RedriveDeliveries: ['manage'],
  GetOwnTenant: ['read', 'manage'],
  ListOwnKeys: ['manage'],
  CreateOwnKey: ['manage'],
  RotateOwnKey: ['manage'],
  RevokeOwnKey: ['manage'],
  ListOwnAuditEvents: ['manage'],
  CreateTenant: ['admin'],
  ListTenants: ['admin'],
  GetTenant: ['admin'],
  UpdateTenant: ['admin'],
  SuspendTenant: ['admin'],
  ResumeTenant: ['admin'],
  DeleteTenant: ['admin'],
  CreateApiKey: ['admin'],
  ListApiKeys: ['admin'],
  RotateApiKey: ['admin'],
  RevokeApiKey: ['admin'],
  CreateAdminKey: ['admin'],
  ListAdminKeys: ['admin'],
  RotateAdminKey: ['admin'],
  RevokeAdminKey: ['admin'],
  ListAuditEvents: ['admin'],
};

const SCOPES: readonly Scope[] = ['enqueue', 'work', 'read', 'manage', 'tick'];
const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
const DENIED = { status: 403, code: 'PERMISSION_DENIED' };
let service: TestService;
let madeAdmin: Client;
let impossible: Client;
const clients = new Map<Scope, Client>();

before(async () => {
  service = await startTestService();
  for (const scope of SCOPES) clients.set(scope, await service.tenant({ scopes: [scope] }));
  madeAdmin = clientFor(
    service.base,
    (await service.admin.post('/v1/admin/keys', { name: 'made' })).body.secret as string,
  );
  impossible = await service.tenant({ name: 'impossible' });
  await service.sql(
    `update stint.api_key set scopes = '{admin}'
     where tenant_id = (select id from stint.tenant where name = 'impossible')`,
  );
});
after(() => service.stop());

function targetOf({ path }: HttpBinding): string {
  return path.replaceAll(':id', UNKNOWN_ID).replaceAll(/:\w+/g, 'some');
}

test('every operation of the table has its scopes here, and no others', () => {
  assert.deepEqual(
    operations.map(({ name }) => name),
    Object.keys(ALLOWED),
  );
  for (const { name, scopes } of operations) {
    const allowed = new Set<Scope>(scopes);
    // The one scope that implies another.
    if (allowed.has('read')) allowed.add('manage');
    assert.deepEqual([...allowed], ALLOWED[name], name);
  }
});

const routes = operations.flatMap((operation) => operation.http.map((binding) => ({ operation, binding })));

describe('every route', () => {
  for (const { operation, binding } of routes) {
    const target = targetOf(binding);
    const call = (client: Client) => client.request(binding.method, target, binding.method === 'GET' ? undefined : {});
    const name = `${binding.method} ${binding.path}`;
    const allowed = new Set(ALLOWED[operation.name]);

    test(`${name} is 401 without a credential and with one that nobody made`, async () => {
      const bare = await fetch(service.base + target, { method: binding.method });
      assert.equal(bare.status, 401);
      assert.match(bare.headers.get('www-authenticate') ?? '', /^Bearer/);
      assert.equal(((await bare.json()) as { code: string }).code, 'UNAUTHENTICATED');
      assertProblem(await call(clientFor(service.base, 'stint_nobody')), UNAUTHENTICATED);
    });

    test(`${name} is 403 for every scope but its own`, async () => {
      for (const scope of SCOPES.filter((one) => !allowed.has(one))) {
        assertProblem(await call(clients.get(scope)!), DENIED);
      }
      for (const scope of SCOPES.filter((one) => allowed.has(one))) {
        const { status } = await call(clients.get(scope)!);
        assert.ok(status !== 401 && status !== 403 && status < 500, `${scope}: ${status}`);
      }
    });

    test(`${name} is ${allowed.has('admin') ? 'open to' : '403 for'} an admin key, the root's and a made one`, async () => {
      for (const admin of [service.admin, madeAdmin]) {
        const answer = await call(admin);
        if (!allowed.has('admin')) assertProblem(answer, DENIED);
        else assert.ok(answer.status !== 401 && answer.status !== 403 && answer.status < 500, answer.text);
      }
    });

    test(`${name} is 403 for a key of a tenant that holds admin, which no call can make`, async () => {
      assertProblem(await call(impossible), DENIED);
    });
  }
});

test('no call makes a key of a tenant that holds admin', async () => {
  const fields = { name: 'more', scopes: ['admin'] };
  for (const scopes of [['admin'], ['read', 'admin'], ['ADMIN']]) {
    const made = [
      await service.admin.post('/v1/admin/tenants/impossible/keys', { ...fields, scopes }),
      await clients.get('manage')!.post('/v1/keys', { ...fields, scopes }),
    ];
    for (const answer of made) assert.deepEqual([answer.status, answer.body.code], [400, 'INVALID_ARGUMENT']);
  }
});
