import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { operations } from '../../src/operations.js';
import { grpcClient } from '../helpers/grpc.js';
import { checkInvariants } from '../helpers/invariants.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import {
  assertProblem,
  enqueue,
  get,
  lease,
  leased,
  leaseOne,
  NOT_FOUND,
  putQueue,
  settle,
  settleOk,
  UNKNOWN_ID,
} from '../contract/jobs.js';

/*
 * A key that is bound to queues, every operation of the table: inside it may what its scopes say; a queue outside that it names is
 * refused with the field that names it; jobs and leases outside are as if they were not there; lists leave them out. Nothing outside
 * changes. The walk goes over the table of operations, so that an operation without an entry here fails.
 */

const PATTERNS = ['billing-*', 'exact'];
const INSIDE = ['billing-', 'billing-a', 'exact'];
/** Names that are nearly inside. */
const OUTSIDE = ['billing', 'Billing-a', 'a-billing-a', 'exac', 'exactly', 'Exact', 'orders'];

/** What there is in a queue of a test. */
interface Held {
  readonly queue: string;
  readonly ready: string;
  readonly dead: string;
  readonly leased: string;
  readonly token: string;
  readonly schedule: string;
  readonly webhook: string;
}

type Call = (client: Client, held: Held) => Promise<Answer>;

interface Entry {
  /** With a queue inside: done. */
  readonly allowed?: readonly Call[];
  /** With one outside: refused, naming the field. */
  readonly refused?: Readonly<Record<string, Call>>;
  /** With a job or lease outside: answered as with one of nobody's. */
  readonly missing?: readonly Call[];
  /** Names and touches no queue. */
  readonly free?: true;
  /** A key that is bound to queues may not. */
  readonly never?: Call;
  readonly admin?: true;
}

const items = ({ token }: Held) => ({ items: [{ leaseToken: token }] });

/** A settling call: allowed and missing by token, alone and in a batch. */
function settling(verb: string): Entry {
  const calls: readonly Call[] = [
    (client, held) => client.post(`/v1/jobs/${held.leased}/${verb}`, { leaseToken: held.token }),
    (client, held) => client.post(`/v1/leases/${verb}`, items(held)),
  ];
  return { allowed: calls, missing: calls };
}

/** A call on the queue of its path. */
function onQueue(call: Call, more: Entry = {}): Entry {
  return { ...more, allowed: [call, ...(more.allowed ?? [])], refused: { queue: call, ...more.refused } };
}

/** A call on a webhook, for one queue. */
const onWebhook = onSchedule;
const HOOK = { url: 'https://hooks.invalid/', events: ['schedule.failed'], paused: true };

/** A call on a schedule, whose queue decides. */
function onSchedule(call: Call): Entry {
  return { allowed: [call], missing: [call] };
}

const entries: Readonly<Record<string, Entry>> = {
  Enqueue: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/jobs`, {})),
  EnqueueBatch: {
    allowed: [(client, { queue }) => client.post('/v1/jobs/batch', { jobs: [{ queue }, { queue: 'exact' }] })],
    refused: {
      'jobs[0].queue': (client, { queue }) => client.post('/v1/jobs/batch', { jobs: [{ queue }] }),
      'jobs[1].queue': (client, { queue }) =>
        client.post('/v1/jobs/batch', { jobs: [{ queue: 'billing-a' }, { queue }, { queue: 'exact' }] }),
    },
  },
  Lease: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/lease`, {}), {
    allowed: [
      (client, { queue }) => client.post('/v1/lease', { queues: [{ name: queue }, { name: 'exact' }] }),
      (client, held) => client.post(`/v1/queues/${held.queue}/lease`, { settle: { acks: items(held).items } }),
    ],
    refused: {
      'queues[0].name': (client, { queue }) => client.post('/v1/lease', { queues: [{ name: queue }] }),
      'queues[1].name': (client, { queue }) =>
        client.post('/v1/lease', { queues: [{ name: 'exact' }, { name: queue }], wait: '30s' }),
    },
    missing: [(client, held) => client.post('/v1/queues/billing-none/lease', { settle: { acks: items(held).items } })],
  }),
  Heartbeat: settling('heartbeat'),
  Ack: settling('ack'),
  Nack: settling('nack'),
  Release: settling('release'),
  Settle: {
    allowed: [(client, held) => client.post('/v1/leases/settle', { heartbeats: items(held).items })],
    missing: [
      (client, held) => {
        const list = items(held).items;
        return client.post('/v1/leases/settle', { acks: list, nacks: list, releases: list, heartbeats: list });
      },
    ],
  },
  GetJob: {
    allowed: [(client, { ready }) => client.get(`/v1/jobs/${ready}`)],
    missing: [
      (client, { ready }) => client.get(`/v1/jobs/${ready}`),
      (client, { dead }) => client.get(`/v1/jobs/${dead}`),
      (client, held) => client.get(`/v1/jobs/${held.leased}?wait=30s`),
    ],
  },
  ListJobs: onQueue((client, { queue }) => client.get(`/v1/queues/${queue}/jobs`), {
    allowed: [(client, { queue }) => client.get(`/v1/queues/${queue}/dead`)],
  }),
  UpdateJob: {
    allowed: [(client, { ready }) => client.patch(`/v1/jobs/${ready}`, { priority: 1 })],
    missing: [(client, { ready }) => client.patch(`/v1/jobs/${ready}`, { priority: 1 })],
  },
  CancelJob: {
    allowed: [(client, { ready }) => client.post(`/v1/jobs/${ready}/cancel`, {})],
    missing: [
      (client, { ready }) => client.post(`/v1/jobs/${ready}/cancel`, {}),
      (client, held) => client.post(`/v1/jobs/${held.leased}/cancel`, { force: true }),
    ],
  },
  ListQueues: { free: true },
  GetQueue: onQueue((client, { queue }) => client.get(`/v1/queues/${queue}`)),
  PutQueue: onQueue((client, { queue }) => client.put(`/v1/queues/${queue}`, { maxAttempts: 3 }), {
    allowed: [(client, { queue }) => client.put('/v1/queues/billing-source', { deadLetterQueue: queue })],
    refused: {
      deadLetterQueue: (client, { queue }) => client.put('/v1/queues/billing-source', { deadLetterQueue: queue }),
    },
  }),
  DeleteQueue: onQueue((client, { queue }) => client.delete(`/v1/queues/${queue}?force=true`)),
  PauseQueue: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/pause`)),
  ResumeQueue: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/resume`)),
  PurgeQueue: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/purge`)),
  GetQueueStats: onQueue((client, { queue }) => client.get(`/v1/queues/${queue}/stats`)),
  RedriveDead: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/dead/redrive`, {}), {
    allowed: [
      (client, { queue, dead }) => client.post(`/v1/queues/${queue}/dead/redrive`, { ids: [dead], toQueue: 'exact' }),
    ],
    refused: {
      toQueue: (client, { queue }) => client.post('/v1/queues/exact/dead/redrive', { toQueue: queue }),
    },
    missing: [(client, { dead }) => client.post('/v1/queues/exact/dead/redrive', { ids: [dead] })],
  }),
  DeleteDead: onQueue((client, { queue }) => client.post(`/v1/queues/${queue}/dead/delete`, {}), {
    missing: [(client, { dead }) => client.post('/v1/queues/exact/dead/delete', { ids: [dead] })],
  }),
  ListSchedules: { free: true },
  GetSchedule: onSchedule((client, { schedule }) => client.get(`/v1/schedules/${schedule}`)),
  PutSchedule: {
    allowed: [(client, { queue }) => client.put('/v1/schedules/own', { every: '1h', queue })],
    refused: { queue: (client, { queue }) => client.put('/v1/schedules/own', { every: '1h', queue }) },
  },
  DeleteSchedule: onSchedule((client, { schedule }) => client.delete(`/v1/schedules/${schedule}`)),
  PauseSchedule: onSchedule((client, { schedule }) => client.post(`/v1/schedules/${schedule}/pause`)),
  ResumeSchedule: onSchedule((client, { schedule }) => client.post(`/v1/schedules/${schedule}/resume`)),
  RunSchedule: onSchedule((client, { schedule }) => client.post(`/v1/schedules/${schedule}/run`)),
  PreviewSchedule: { free: true },
  Tick: { free: true },
  ListWebhooks: { free: true },
  GetWebhook: onWebhook((client, { webhook }) => client.get(`/v1/webhooks/${webhook}`)),
  PutWebhook: {
    allowed: [
      (client, { queue }) => client.put('/v1/webhooks/own', { ...HOOK, queues: [queue, 'billing-x*'] }),
      (client, { queue, webhook }) => client.put(`/v1/webhooks/${webhook}`, { ...HOOK, queues: [queue] }),
    ],
    refused: {
      queues: (client, { queue }) => client.put('/v1/webhooks/own', { ...HOOK, queues: ['exact', queue] }),
    },
  },
  DeleteWebhook: onWebhook((client, { webhook }) => client.delete(`/v1/webhooks/${webhook}`)),
  RotateWebhookSecret: onWebhook((client, { webhook }) => client.post(`/v1/webhooks/${webhook}/rotate`, {})),
  TestWebhook: onWebhook((client, { webhook }) => client.post(`/v1/webhooks/${webhook}/test`)),
  RedriveDeliveries: onWebhook((client, { webhook }) => client.post(`/v1/webhooks/${webhook}/redrive`)),
  GetOwnTenant: { free: true },
  ListOwnKeys: { free: true },
  CreateOwnKey: {
    allowed: [
      (client, { queue }) => client.post('/v1/keys', { name: `k-${queue}`, scopes: ['work'], queues: [queue] }),
    ],
    refused: {
      queues: (client, { queue }) => client.post('/v1/keys', { name: 'k', scopes: ['work'], queues: [queue] }),
    },
  },
  RotateOwnKey: { never: (client) => client.post('/v1/keys/whole/rotate', {}) },
  RevokeOwnKey: { never: (client) => client.delete('/v1/keys/whole') },
  ListOwnAuditEvents: { never: (client) => client.get('/v1/audit') },
  CreateTenant: { admin: true },
  ListTenants: { admin: true },
  GetTenant: { admin: true },
  UpdateTenant: { admin: true },
  SuspendTenant: { admin: true },
  ResumeTenant: { admin: true },
  DeleteTenant: { admin: true },
  CreateApiKey: { admin: true },
  ListApiKeys: { admin: true },
  RotateApiKey: { admin: true },
  RevokeApiKey: { admin: true },
  CreateAdminKey: { admin: true },
  ListAdminKeys: { admin: true },
  RotateAdminKey: { admin: true },
  RevokeAdminKey: { admin: true },
  ListAuditEvents: { admin: true },
};

const SCOPES = ['enqueue', 'work', 'read', 'manage'];
const DENIED = { status: 403, code: 'PERMISSION_DENIED' };

let service: TestService;
let whole: Client;
let bound: Client;

before(async () => {
  service = await startTestService();
});
beforeEach(async () => {
  whole = await service.tenant();
  await whole.post('/v1/keys', { name: 'whole', scopes: SCOPES });
  bound = await boundTo(PATTERNS);
});
after(() => service.stop());

let keys = 0;
async function boundTo(queues: readonly string[]): Promise<Client> {
  const made = await whole.post('/v1/keys', { name: `bound-${++keys}`, scopes: SCOPES, queues });
  assert.equal(made.status, 201, made.text);
  return clientFor(whole.base, made.body.secret as string);
}

/** A ready job, a dead one and a leased one, in a queue of that name. */
async function fill(queue: string): Promise<Held> {
  const dead = await leased(whole, queue, { payload: 'secret' });
  await settleOk(whole, 'nack', dead, { final: true });
  const held = await leased(whole, queue, { payload: 'secret' }, { visibilityTimeout: '12h' });
  const ready = await enqueue(whole, queue, { payload: 'secret' });
  const schedule = `s-${queue}`;
  const put = await whole.put(`/v1/schedules/${schedule}`, { every: '366d', queue, payload: 'secret' });
  assert.equal(put.status, 200, put.text);
  const webhook = `w-${queue}`;
  const hook = await whole.put(`/v1/webhooks/${webhook}`, { ...HOOK, queues: [queue] });
  assert.ok(hook.status < 300, hook.text);
  return { queue, schedule, webhook, dead: dead.id, leased: held.id, token: held.leaseToken, ready };
}

/** Everything of a queue that a caller might change. */
async function standing(queues: readonly string[]): Promise<unknown[]> {
  const all = [];
  for (const queue of queues) {
    all.push((await whole.get(`/v1/queues/${queue}`)).body);
    all.push((await whole.get(`/v1/queues/${queue}/jobs?include=payload,result,attempts`)).body.jobs);
  }
  all.push((await whole.get('/v1/schedules')).body);
  all.push((await whole.get('/v1/webhooks')).body);
  all.push((await whole.get('/v1/queues')).body.queues.length);
  return all;
}

/** An answer without what differs between two answers that say the same. */
function said({ status, text }: Answer, held: Held): unknown {
  let plain = text.replaceAll(/"requestId":"[^"]*"/g, '');
  for (const [name, value] of Object.entries(held)) plain = plain.replaceAll(value as string, name);
  return { status, plain };
}

/** A token of that queue for a job that does not exist. */
function tokenOfNobody(token: string): string {
  const bytes = Buffer.from(token, 'base64url');
  bytes.writeUInt32BE(2_000_000_000, 1);
  bytes.write(UNKNOWN_ID.replaceAll('-', ''), 5, 'hex');
  return bytes.toString('base64url');
}

test('every operation of the table has an entry here, and no entry is without its operation', () => {
  assert.deepEqual(Object.keys(entries).sort(), operations.map(({ name }) => name).sort());
});

for (const { name, scopes, http } of operations) {
  const entry = entries[name];
  if (entry === undefined) continue;
  const { allowed = [], refused = {}, missing = [], free, never, admin } = entry;

  test(`${name}: its entry says something of every way to name a queue`, () => {
    if (admin === true) {
      assert.deepEqual(scopes, ['admin']);
    } else if (free === true) {
      for (const { path } of http) assert.doesNotMatch(path, /:/);
    } else if (never === undefined) {
      assert.ok(allowed.length > 0);
      assert.ok(Object.keys(refused).length + missing.length > 0);
      const byQueue = http.some(({ path }) => path.includes(':queue'));
      assert.ok(!byQueue || 'queue' in refused, 'the queue of a path');
    }
  });

  if (allowed.length > 0) {
    test(`${name} is allowed in the queues of the key`, async () => {
      for (const queue of INSIDE) {
        for (const call of allowed) {
          await whole.delete(`/v1/queues/${queue}?force=true`);
          await putQueue(whole, 'exact');
          const answer = await call(bound, await fill(queue));
          assert.ok(answer.status < 300, answer.text);
          if (answer.body.results !== undefined) assert.equal(answer.body.results[0].outcome, 'OK');
        }
      }
    });
  }

  for (const [field, call] of Object.entries(refused)) {
    test(`${name} is refused, naming ${field}, for a queue that is not the key’s, and changes nothing`, async () => {
      for (const queue of ['exact', 'billing-a', 'billing-source']) await putQueue(whole, queue);
      for (const queue of ['orders', 'billing']) {
        const held = await fill(queue);
        const queues = ['exact', 'billing-a', 'billing-source', queue];
        const before = await standing(queues);
        const answer = await call(bound, held);
        assertProblem(answer, { ...DENIED, fields: [field], says: /queue/ });
        assert.ok(!answer.text.includes('secret'));
        assert.deepEqual(await standing(queues), before);
        // The same for a queue that does not exist: it does not tell which there are.
        const nowhere = { ...held, queue: `x-${queue}` };
        assert.deepEqual(said(await call(bound, nowhere), nowhere), said(answer, held));
      }
    });
  }

  if (missing.length > 0) {
    test(`${name} of what is in a queue that is not the key’s is answered as of nothing, and changes nothing`, async () => {
      await putQueue(whole, 'exact');
      const held = await fill('orders');
      const before = await standing(['orders', 'exact']);
      const nobody: Held = {
        queue: 'orders',
        ready: UNKNOWN_ID,
        dead: UNKNOWN_ID,
        leased: UNKNOWN_ID,
        token: tokenOfNobody(held.token),
        schedule: 's-none',
        webhook: 'w-none',
      };
      for (const call of missing) {
        const began = performance.now();
        const [real, none] = [await call(bound, held), await call(bound, nobody)];
        assert.deepEqual(said(real, held), said(none, nobody));
        assert.ok(!real.text.includes('secret'), real.text);
        assert.ok(performance.now() - began < 10_000, 'it was waited for');
      }
      assert.deepEqual(await standing(['orders', 'exact']), before);
    });
  }

  if (never !== undefined) {
    test(`${name} is refused to a key that is bound to queues, and changes nothing`, async () => {
      const before = (await whole.get('/v1/keys')).body;
      assertProblem(await never(bound, await fill('exact')), DENIED);
      assert.deepEqual((await whole.get('/v1/keys')).body, before);
    });
  }
}

test('names that are nearly the key’s are not the key’s', async () => {
  for (const queue of OUTSIDE) {
    const held = await fill(queue);
    const before = await standing([queue]);
    assertProblem(await bound.get(`/v1/queues/${queue}`), DENIED);
    assertProblem(await bound.post(`/v1/queues/${queue}/jobs`, {}), DENIED);
    const answers = [
      await bound.get(`/v1/jobs/${held.ready}`),
      await bound.patch(`/v1/jobs/${held.ready}`, { priority: 1 }),
      await bound.post(`/v1/jobs/${held.ready}/cancel`, {}),
      await settle(bound, 'ack', { id: held.leased, leaseToken: held.token }),
    ];
    for (const answer of answers) assertProblem(answer, NOT_FOUND);
    assert.deepEqual((await bound.get('/v1/queues')).body.queues, []);
    assert.deepEqual(await standing([queue]), before);
  }
});

describe('lists', () => {
  test('of queues leave the others out, page by page, and no page is short because of them', async () => {
    const inside = Array.from({ length: 7 }, (_, n) => `billing-${n}`).concat('exact');
    const outside = [...OUTSIDE, 'billinga', 'billing.a', 'c', 'exact.a', 'z'];
    for (const queue of [...inside, ...outside]) await putQueue(whole, queue);
    const names: string[] = [];
    let cursor: string | undefined;
    let pages = 0;
    do {
      const { body } = await bound.get(`/v1/queues?limit=3${cursor === undefined ? '' : `&cursor=${cursor}`}`);
      assert.equal(body.queues.length, Math.min(3, inside.length - names.length));
      names.push(...body.queues.map((queue: { name: string }) => queue.name));
      cursor = body.nextCursor as string | undefined;
      pages += 1;
    } while (cursor !== undefined);
    assert.deepEqual([names, pages], [inside.sort(), 3]);
    assert.equal((await whole.get('/v1/queues')).body.queues.length, inside.length + outside.length);
  });

  test('of queues are empty for a key whose queues do not exist yet', async () => {
    await putQueue(whole, 'orders');
    assert.deepEqual((await bound.get('/v1/queues')).body, { queues: [] });
  });

  test('of schedules leave those of the others out, page by page; and one of another queue is not taken over', async () => {
    for (const [index, queue] of ['billing-a', 'orders', 'exact', 'billing', 'billing-b', 'zebra'].entries()) {
      const put = await whole.put(`/v1/schedules/s${index}`, { every: '365d', queue });
      assert.equal(put.status, 200, put.text);
    }
    const first = (await bound.get('/v1/schedules?limit=2')).body;
    const second = (await bound.get(`/v1/schedules?limit=2&cursor=${first.nextCursor}`)).body;
    const names = [first, second].map(({ schedules }) => schedules.map(({ name }: { name: string }) => name));
    assert.deepEqual(names, [['s0', 's2'], ['s4']]);
    assert.equal(second.nextCursor, undefined);
    const before = (await whole.get('/v1/schedules/s1')).body;
    assertProblem(await bound.put('/v1/schedules/s1', { every: '1h', queue: 'exact' }), NOT_FOUND);
    assert.deepEqual((await whole.get('/v1/schedules/s1')).body, before);
  });

  test('a pattern of one star stands for all queues; names of other forms are literal', async () => {
    const star = await boundTo(['*']);
    const literal = await boundTo(['a.b', 'x_*']);
    for (const queue of ['a.b', 'aXb', 'x_', 'xy', 'x_1', 'z']) await putQueue(whole, queue);
    const names = async (client: Client) => (await client.get('/v1/queues')).body.queues.map((each: any) => each.name);
    assert.deepEqual(await names(star), ['a.b', 'aXb', 'x_', 'x_1', 'xy', 'z']);
    assert.deepEqual(await names(literal), ['a.b', 'x_', 'x_1']);
    for (const queue of ['aXb', 'xy']) assertProblem(await literal.get(`/v1/queues/${queue}`), DENIED);
  });
});

describe('jobs that move between queues', () => {
  test('a job whose death brings it into a queue of others is gone for the key, whatever it knows of it', async () => {
    await putQueue(whole, 'billing-a', { deadLetterQueue: 'orders' });
    const job = await leased(bound, 'billing-a', { payload: 'mine' });
    await settleOk(bound, 'nack', job, { final: true });
    await until('it is forwarded', async () => (await get(whole, job.id)).queue === 'orders');
    const before = await standing(['orders']);
    assertProblem(await bound.get(`/v1/jobs/${job.id}`), NOT_FOUND);
    assertProblem(await bound.patch(`/v1/jobs/${job.id}`, { priority: 5 }), NOT_FOUND);
    assertProblem(await bound.post(`/v1/jobs/${job.id}/cancel`, {}), NOT_FOUND);
    for (const verb of ['ack', 'nack', 'release', 'heartbeat'] as const) {
      const { status } = await settle(bound, verb, job);
      assert.ok(status >= 400 || verb === 'nack', `${verb}: ${status}`);
    }
    assert.equal((await bound.post('/v1/queues/billing-a/dead/redrive', { ids: [job.id] })).body.matched, 0);
    assert.deepEqual(await standing(['orders']), before);
  });

  test('a job that is forwarded or redriven into a queue of the key is the key’s from then on', async () => {
    await putQueue(whole, 'orders', { deadLetterQueue: 'billing-dead' });
    const forwarded = await leased(whole, 'orders');
    assertProblem(await bound.get(`/v1/jobs/${forwarded.id}`), NOT_FOUND);
    await settleOk(whole, 'nack', forwarded, { final: true });
    await until('it is forwarded', async () => (await bound.get(`/v1/jobs/${forwarded.id}`)).status === 200);
    assert.equal((await leaseOne(bound, 'billing-dead')).id, forwarded.id);
    await putQueue(whole, 'exact');
    const redriven = await leased(whole, 'other');
    await settleOk(whole, 'nack', redriven, { final: true });
    await whole.post('/v1/queues/other/dead/redrive', { toQueue: 'exact' });
    assert.equal((await get(bound, redriven.id)).queue, 'exact');
    assert.equal((await bound.patch(`/v1/jobs/${redriven.id}`, { priority: 2 })).status, 200);
  });

  test('a queue to which a queue of others sends its dead jobs is not deleted from under it, nor is that one named', async () => {
    await putQueue(whole, 'secret-orders', { deadLetterQueue: 'billing-target' });
    const refused = await bound.delete('/v1/queues/billing-target?force=true');
    assert.deepEqual([refused.status, refused.body.code], [403, 'PERMISSION_DENIED']);
    assert.ok(!refused.text.includes('secret-orders'), refused.text);
    const conflict = await bound.delete('/v1/queues/billing-target');
    assert.equal(conflict.status, 409);
    assert.ok(!conflict.text.includes('secret-orders'), conflict.text);
    assert.equal((await whole.get('/v1/queues/secret-orders')).body.deadLetterQueue, 'billing-target');
  });

  test('a job that was redriven to a queue of others is not shown, nor waited for', async () => {
    await putQueue(whole, 'orders');
    const job = await leased(whole, 'exact', { payload: 'secret' });
    await settleOk(whole, 'nack', job, { final: true });
    const held = await leased(whole, 'exact', { payload: 'secret' });
    const waiting = bound.get(`/v1/jobs/${held.id}?wait=30s`);
    await settleOk(whole, 'nack', held, { final: true });
    assert.equal((await waiting).body.state, 'dead');
    assert.equal((await whole.post('/v1/queues/exact/dead/redrive', { toQueue: 'orders' })).body.redriven, 2);
    const began = performance.now();
    assertProblem(await bound.get(`/v1/jobs/${held.id}?wait=30s`), NOT_FOUND);
    assert.ok(performance.now() - began < 10_000, 'it was waited for');
    assert.equal((await lease(whole, 'orders', { maxJobs: 10 })).length, 2);
  });
});

describe('the worker stream', () => {
  test('is refused for a queue that is not the key’s; settles what is not the key’s as nothing', async () => {
    const held = await fill('orders');
    const before = await standing(['orders']);
    const grpc = grpcClient(service.grpc, bound.key);
    try {
      const refused = grpc.work();
      refused.send({ hello: { queues: [{ name: 'exact' }, { name: 'orders' }], credits: 10 } });
      const { code, details } = await refused.ended;
      assert.equal(code, 7);
      assert.match(details, /queues\[1\]\.name .*may not use/);
      const worker = grpc.work();
      worker.send({ hello: { queues: [{ name: 'exact' }], credits: 10 } });
      worker.send({ settle: { id: 1, items: { acks: [{ leaseToken: held.token }] } } });
      await until('it is answered', () => worker.received.length > 0);
      assert.equal(worker.received[0].settled.results.acks[0].outcome, 'SETTLE_OUTCOME_NOT_FOUND');
      worker.stream.cancel();
      await worker.ended;
    } finally {
      grpc.close();
    }
    assert.deepEqual(await standing(['orders']), before);
  });
});

test('no invariant was broken by any of this', async () => {
  await checkInvariants(service);
});
