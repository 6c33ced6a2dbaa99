import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type Answer, type Client, clientFor, type TestService } from '../helpers/service.js';

/** A tenant of its own for one act, with a key that has every scope. */
export interface World {
  readonly service: TestService;
  readonly admin: Client;
  readonly own: Client;
  readonly tenant: { readonly id: string; readonly name: string };
  /** Of the key `own` calls with. */
  readonly keyId: string;
  /** A name that nothing has yet. */
  readonly fresh: string;
}

/** How one administrative operation is carried out, and what the log is to say of it. */
export interface Act {
  /** What must be there before. */
  readonly prepare?: (world: World) => Promise<unknown>;
  readonly act: (world: World) => Promise<Answer>;
  /** In place of `act` where that takes more than one transaction. */
  readonly actAtOnce?: (world: World) => Promise<Answer>;
  /** The same again, or a form of it that has no effect: it is answered and changes nothing. */
  readonly idle?: (world: World) => Promise<Answer>;
  /** A call that is refused for what it says, with its status. */
  readonly fails: readonly [status: number, call: (world: World) => Promise<Answer>];
  readonly target: (world: World) => string;
  /** Members that the log must show; it may show more. */
  readonly before: object | undefined;
  readonly after: object | undefined;
}

const queue = () => 'queue mail';
const putMail = ({ own }: World) => done(own.put('/v1/queues/mail', { maxAttempts: 3 }));
const schedule = () => 'schedule nightly';
const NIGHTLY = { cron: '0 3 * * *', timeZone: 'Europe/Kyiv', queue: 'mail', payload: 'not for the log' };
const putNightly = ({ own }: World) => done(own.put('/v1/schedules/nightly', NIGHTLY));
const webhook = () => 'webhook hook';
const HOOK = {
  url: 'https://hooks.invalid/not-for-the-log?key=not-for-the-log',
  events: ['job.dead'],
  queues: ['mail'],
};
const putHook = ({ own }: World) => done(own.put('/v1/webhooks/hook', HOOK));
const ofTenant = ({ tenant }: World) => `tenant ${tenant.name}`;
const path = ({ tenant }: World) => `/v1/admin/tenants/${tenant.name}`;
const KEY = { name: 'extra', scopes: ['work'] };
const makeKey = (world: World) => done(world.admin.post(`${path(world)}/keys`, KEY));
const makeAdminKey = ({ admin, fresh }: World) => done(admin.post('/v1/admin/keys', { name: fresh }));
const extra = () => 'key extra';
const adminKey = ({ fresh }: World) => `admin key ${fresh}`;

async function keyIdNamed(client: Client, at: string, name: string): Promise<string> {
  const { keys } = (await done(client.get(`${at}?limit=1000`))).body as { keys: { id: string; name: string }[] };
  return keys.find((key) => key.name === name)!.id;
}

async function bury(world: World): Promise<void> {
  const { own } = world;
  await putMail(world);
  for (const kind of ['one', 'two']) await done(own.post('/v1/queues/mail/jobs', { kind, payload: 'not for the log' }));
  const leased = await done(own.post('/v1/queues/mail/lease', { maxJobs: 2 }));
  for (const { id, leaseToken } of leased.body.jobs) {
    await done(own.post(`/v1/jobs/${id}/nack`, { leaseToken, final: true, error: { message: 'not for the log' } }));
  }
}

/** A delivery that was given up, of the webhook that is put there. */
async function letDeliveryDie({ service, tenant }: World): Promise<void> {
  await service.sql(
    `with w as (select queue_id from stint.webhook where tenant_id = $1),
    body as (
      insert into stint.job (id, queue_id, payload, is_json, priority, run_at, created_at)
      select gen_random_uuid(), queue_id, '{}', true, 0, now(), now() from w returning id, queue_id),
    counted as (insert into stint.queue_count (queue_id, dead) select queue_id, 1 from w)
    insert into stint.dead (job_id, ended_at, queue_id, epoch, attempt, releases, size, rank, reason, ended, lease_id)
    select id, now() - interval '1 minute', queue_id, 1, 1, 0, 2, 0, 'attempts_spent', 'nacked', 1 from body`,
    [tenant.id],
  );
}

/** One entry for each administrative operation. */
export const ACTS: Readonly<Record<string, Act>> = {
  PutSchedule: {
    prepare: putNightly,
    act: ({ own }) => own.put('/v1/schedules/nightly', { ...NIGHTLY, cron: '0 4 * * *' }),
    idle: ({ own }) => own.put('/v1/schedules/nightly', { ...NIGHTLY, cron: '0 4 * * *' }),
    fails: [400, ({ own }) => own.put('/v1/schedules/nightly', { ...NIGHTLY, cron: '0 0 30 2 *' })],
    target: schedule,
    before: { cron: '0 3 * * *', timeZone: 'Europe/Kyiv', queue: 'mail', paused: false },
    after: { cron: '0 4 * * *', timeZone: 'Europe/Kyiv', queue: 'mail', paused: false },
  },
  DeleteSchedule: {
    prepare: putNightly,
    act: ({ own }) => own.delete('/v1/schedules/nightly'),
    fails: [404, ({ own }) => own.delete('/v1/schedules/nowhere')],
    target: schedule,
    before: { cron: '0 3 * * *', queue: 'mail' },
    after: undefined,
  },
  PauseSchedule: {
    prepare: putNightly,
    act: ({ own }) => own.post('/v1/schedules/nightly/pause'),
    idle: ({ own }) => own.post('/v1/schedules/nightly/pause'),
    fails: [404, ({ own }) => own.post('/v1/schedules/nowhere/pause')],
    target: schedule,
    before: { paused: false },
    after: { paused: true },
  },
  ResumeSchedule: {
    prepare: async (world) => {
      await putNightly(world);
      await done(world.own.post('/v1/schedules/nightly/pause'));
    },
    act: ({ own }) => own.post('/v1/schedules/nightly/resume'),
    idle: ({ own }) => own.post('/v1/schedules/nightly/resume'),
    fails: [404, ({ own }) => own.post('/v1/schedules/nowhere/resume')],
    target: schedule,
    before: { paused: true },
    after: { paused: false },
  },
  RunSchedule: {
    prepare: putNightly,
    act: ({ own }) => own.post('/v1/schedules/nightly/run'),
    fails: [404, ({ own }) => own.post('/v1/schedules/nowhere/run')],
    target: schedule,
    before: undefined,
    after: {},
  },
  PutWebhook: {
    prepare: putHook,
    act: ({ own }) => own.put('/v1/webhooks/hook', { ...HOOK, maxInFlight: 2 }),
    idle: ({ own }) => own.put('/v1/webhooks/hook', { ...HOOK, maxInFlight: 2 }),
    fails: [400, ({ own }) => own.put('/v1/webhooks/hook', { ...HOOK, url: 'https://127.0.0.1/' })],
    target: webhook,
    before: { url: 'https://hooks.invalid/…', events: ['job.dead'], queues: ['mail'], maxInFlight: 4 },
    after: { url: 'https://hooks.invalid/…', events: ['job.dead'], queues: ['mail'], maxInFlight: 2 },
  },
  DeleteWebhook: {
    prepare: putHook,
    act: ({ own }) => own.delete('/v1/webhooks/hook'),
    fails: [404, ({ own }) => own.delete('/v1/webhooks/nowhere')],
    target: webhook,
    before: { events: ['job.dead'], queues: ['mail'] },
    after: undefined,
  },
  RotateWebhookSecret: {
    prepare: putHook,
    act: ({ own }) => own.post('/v1/webhooks/hook/rotate', { overlap: '1h' }),
    fails: [404, ({ own }) => own.post('/v1/webhooks/nowhere/rotate', {})],
    target: webhook,
    before: undefined,
    after: undefined,
  },
  TestWebhook: {
    prepare: putHook,
    act: ({ own }) => own.post('/v1/webhooks/hook/test'),
    fails: [404, ({ own }) => own.post('/v1/webhooks/nowhere/test')],
    target: webhook,
    before: undefined,
    after: undefined,
  },
  RedriveDeliveries: {
    prepare: async (world) => {
      await putHook(world);
      await letDeliveryDie(world);
    },
    act: ({ own }) => own.post('/v1/webhooks/hook/redrive'),
    idle: ({ own }) => own.post('/v1/webhooks/hook/redrive'),
    fails: [404, ({ own }) => own.post('/v1/webhooks/nowhere/redrive')],
    target: webhook,
    before: undefined,
    after: undefined,
  },
  PutQueue: {
    prepare: putMail,
    act: ({ own }) => own.put('/v1/queues/mail', { maxAttempts: 7, visibilityTimeout: '45s' }),
    idle: ({ own }) => own.put('/v1/queues/mail', { maxAttempts: 7 }),
    fails: [400, ({ own }) => own.put('/v1/queues/mail', { maxAttempts: 9, deadLetterQueue: 'mail' })],
    target: queue,
    before: { maxAttempts: 3, visibilityTimeout: '30s' },
    after: { maxAttempts: 7, visibilityTimeout: '45s' },
  },
  DeleteQueue: {
    prepare: putMail,
    act: ({ own }) => own.delete('/v1/queues/mail'),
    actAtOnce: ({ own }) => own.delete('/v1/queues/mail?force=true'),
    fails: [404, ({ own }) => own.delete('/v1/queues/mail')],
    target: queue,
    before: { name: 'mail', maxAttempts: 3, counts: { scheduled: 0, ready: 0, leased: 0, dead: 0 } },
    after: undefined,
  },
  PauseQueue: {
    prepare: putMail,
    act: ({ own }) => own.post('/v1/queues/mail/pause'),
    idle: ({ own }) => own.post('/v1/queues/mail/pause'),
    fails: [404, ({ own }) => own.post('/v1/queues/nowhere/pause')],
    target: queue,
    before: { paused: false },
    after: { paused: true },
  },
  ResumeQueue: {
    prepare: async (world) => {
      await putMail(world);
      await done(world.own.post('/v1/queues/mail/pause'));
    },
    act: ({ own }) => own.post('/v1/queues/mail/resume'),
    idle: ({ own }) => own.post('/v1/queues/mail/resume'),
    fails: [404, ({ own }) => own.post('/v1/queues/nowhere/resume')],
    target: queue,
    before: { paused: true },
    after: { paused: false },
  },
  PurgeQueue: {
    prepare: ({ own }) => done(own.post('/v1/queues/mail/jobs', { payload: 'not for the log' })),
    act: ({ own }) => own.post('/v1/queues/mail/purge'),
    fails: [404, ({ own }) => own.post('/v1/queues/nowhere/purge')],
    target: queue,
    before: undefined,
    after: { purged: 1 },
  },
  RedriveDead: {
    prepare: bury,
    act: ({ own }) => own.post('/v1/queues/mail/dead/redrive', { filter: { kind: 'one' } }),
    idle: ({ own }) => own.post('/v1/queues/mail/dead/redrive', { dryRun: true }),
    fails: [404, ({ own }) => own.post('/v1/queues/mail/dead/redrive', { toQueue: 'nowhere' })],
    target: queue,
    before: undefined,
    after: { filter: { kind: 'one' }, matched: 1 },
  },
  DeleteDead: {
    prepare: bury,
    act: ({ own }) => own.post('/v1/queues/mail/dead/delete', {}),
    idle: ({ own }) => own.post('/v1/queues/mail/dead/delete', {}),
    fails: [404, ({ own }) => own.post('/v1/queues/nowhere/dead/delete', {})],
    target: queue,
    before: undefined,
    after: { matched: 2 },
  },
  CreateTenant: {
    act: ({ admin, fresh }) => admin.post('/v1/admin/tenants', { name: fresh, limits: { queues: 5 } }),
    fails: [409, ({ admin, tenant }) => admin.post('/v1/admin/tenants', { name: tenant.name })],
    target: ({ fresh }) => `tenant ${fresh}`,
    before: undefined,
    after: { state: 'active', limits: { queues: 5 } },
  },
  UpdateTenant: {
    act: (world) => world.admin.patch(path(world), { limits: { queues: 5 } }),
    fails: [404, ({ admin }) => admin.patch('/v1/admin/tenants/nobody', { limits: { queues: 5 } })],
    target: ofTenant,
    before: { limits: {} },
    after: { limits: { queues: 5 } },
  },
  SuspendTenant: {
    act: (world) => world.admin.post(`${path(world)}/suspend`),
    idle: (world) => world.admin.post(`${path(world)}/suspend`),
    fails: [404, ({ admin }) => admin.post('/v1/admin/tenants/nobody/suspend')],
    target: ofTenant,
    before: { state: 'active' },
    after: { state: 'suspended' },
  },
  ResumeTenant: {
    prepare: (world) => done(world.admin.post(`${path(world)}/suspend`)),
    act: (world) => world.admin.post(`${path(world)}/resume`),
    idle: (world) => world.admin.post(`${path(world)}/resume`),
    fails: [404, ({ admin }) => admin.post('/v1/admin/tenants/nobody/resume')],
    target: ofTenant,
    before: { state: 'suspended' },
    after: { state: 'active' },
  },
  DeleteTenant: {
    act: (world) => world.admin.delete(path(world)),
    fails: [404, (world) => world.admin.delete(path(world))],
    target: ofTenant,
    before: { state: 'active' },
    after: undefined,
  },
  CreateApiKey: {
    act: (world) => world.admin.post(`${path(world)}/keys`, KEY),
    fails: [409, (world) => world.admin.post(`${path(world)}/keys`, KEY)],
    target: extra,
    before: undefined,
    after: KEY,
  },
  RotateApiKey: {
    prepare: makeKey,
    act: (world) => world.admin.post(`${path(world)}/keys/extra/rotate`, { overlap: '0s' }),
    fails: [404, (world) => world.admin.post(`${path(world)}/keys/none/rotate`, {})],
    target: extra,
    before: KEY,
    after: KEY,
  },
  RevokeApiKey: {
    prepare: makeKey,
    act: (world) => world.admin.delete(`${path(world)}/keys/extra`),
    idle: async (world) =>
      world.admin.delete(`${path(world)}/keys/${await keyIdNamed(world.admin, `${path(world)}/keys`, 'extra')}`),
    fails: [404, (world) => world.admin.delete(`${path(world)}/keys/none`)],
    target: extra,
    before: KEY,
    after: KEY,
  },
  CreateAdminKey: {
    act: ({ admin, fresh }) => admin.post('/v1/admin/keys', { name: fresh }),
    fails: [409, ({ admin, fresh }) => admin.post('/v1/admin/keys', { name: fresh })],
    target: adminKey,
    before: undefined,
    after: {},
  },
  RotateAdminKey: {
    prepare: makeAdminKey,
    act: ({ admin, fresh }) => admin.post(`/v1/admin/keys/${fresh}/rotate`, {}),
    fails: [404, ({ admin }) => admin.post('/v1/admin/keys/none/rotate', {})],
    target: adminKey,
    before: {},
    after: {},
  },
  RevokeAdminKey: {
    prepare: makeAdminKey,
    act: ({ admin, fresh }) => admin.delete(`/v1/admin/keys/${fresh}`),
    idle: async ({ admin, fresh }) =>
      admin.delete(`/v1/admin/keys/${await keyIdNamed(admin, '/v1/admin/keys', fresh)}`),
    fails: [404, ({ admin }) => admin.delete('/v1/admin/keys/none')],
    target: adminKey,
    before: {},
    after: {},
  },
  CreateOwnKey: {
    act: ({ own }) => own.post('/v1/keys', KEY),
    fails: [409, ({ own }) => own.post('/v1/keys', KEY)],
    target: extra,
    before: undefined,
    after: KEY,
  },
  RotateOwnKey: {
    prepare: makeKey,
    act: ({ own }) => own.post('/v1/keys/extra/rotate', {}),
    fails: [404, ({ own }) => own.post('/v1/keys/none/rotate', {})],
    target: extra,
    before: KEY,
    after: KEY,
  },
  RevokeOwnKey: {
    prepare: makeKey,
    act: ({ own }) => own.delete('/v1/keys/extra'),
    idle: async ({ own }) => own.delete(`/v1/keys/${await keyIdNamed(own, '/v1/keys', 'extra')}`),
    fails: [404, ({ own }) => own.delete('/v1/keys/none')],
    target: extra,
    before: KEY,
    after: KEY,
  },
};

/** Every secret that was handed out. */
export const secrets = new Set<string>();

/** The answer, which must be a success. */
export async function done(answering: Promise<Answer>): Promise<Answer> {
  const answer = await answering;
  assert.ok(answer.status < 300, answer.text);
  if (answer.body?.secret !== undefined) secrets.add(answer.body.secret);
  return answer;
}

export async function newWorld(service: TestService): Promise<World> {
  const { admin } = service;
  const name = `t-${randomBytes(6).toString('hex')}`;
  const tenant = (await done(admin.post('/v1/admin/tenants', { name }))).body;
  const scopes = ['enqueue', 'work', 'read', 'manage'];
  const key = (await done(admin.post(`/v1/admin/tenants/${name}/keys`, { name: 'all', scopes }))).body;
  const own = clientFor(service.base, key.secret);
  return { service, admin, own, tenant, keyId: key.id, fresh: `f-${randomBytes(6).toString('hex')}` };
}
