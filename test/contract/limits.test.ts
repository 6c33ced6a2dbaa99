import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { after, before, test } from 'node:test';
import { grpcClient } from '../helpers/grpc.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, enqueue, leased, leaseOne, type Problem, putQueue, settleOk, tooLarge } from './jobs.js';

const SCOPES = ['enqueue', 'work', 'read', 'manage'];

let service: TestService;

before(async () => {
  service = await startTestService();
});
after(() => service.stop());

interface Limited {
  readonly name: string;
  readonly client: Client;
  /** A client of another key of the tenant. */
  readonly key: (limits?: object) => Promise<Client>;
  readonly change: (change: object) => Promise<void>;
}

async function tenantWith(limits: object): Promise<Limited> {
  const { admin } = service;
  const name = `t-${randomBytes(6).toString('hex')}`;
  const made = await admin.post('/v1/admin/tenants', { name, limits });
  assert.equal(made.status, 201, made.text);
  const key = async (ofKey?: object): Promise<Client> => {
    const body = { name: `k-${randomBytes(6).toString('hex')}`, scopes: SCOPES, limits: ofKey };
    const answer = await admin.post(`/v1/admin/tenants/${name}/keys`, body);
    assert.equal(answer.status, 201, answer.text);
    return clientFor(service.base, answer.body.secret as string);
  };
  const change = async (body: object): Promise<void> => {
    const answer = await admin.patch(`/v1/admin/tenants/${name}`, body);
    assert.equal(answer.status, 200, answer.text);
  };
  return { name, client: await key(), key, change };
}

const limited = (says: RegExp): Problem => ({ status: 429, code: 'RATE_LIMITED', says });
const exceeded = (says: RegExp): Problem => ({ status: 429, code: 'QUOTA_EXCEEDED', says });

function assertRefused(answer: Answer, problem: Problem): void {
  assertProblem(answer, problem);
  assert.ok(Number(answer.headers.get('retry-after')) >= 1, 'there is a Retry-After');
}

/** How many of so many calls at once went through; the others must have been refused so. */
async function through(count: number, call: () => Promise<Answer>, refused: Problem): Promise<number> {
  const answers = await Promise.all(Array.from({ length: count }, call));
  const good = answers.filter(({ status }) => status < 300);
  for (const answer of answers) if (answer.status >= 300) assertRefused(answer, refused);
  return good.length;
}

const read = (client: Client) => (): Promise<Answer> => client.get('/v1/queues');
const batch = (client: Client, count: number, queue = 'q'): Promise<Answer> =>
  client.post('/v1/jobs/batch', { jobs: Array.from({ length: count }, () => ({ queue })) });

async function stored(client: Client, queue = 'q'): Promise<number> {
  const { counts } = (await client.get(`/v1/queues/${queue}`)).body as { counts: Record<string, number> };
  return Object.values(counts).reduce((sum, jobs) => sum + jobs);
}

/** Calls until the call is not refused. */
async function patiently(call: () => Promise<Answer>): Promise<Answer> {
  let answer: Answer;
  do answer = await call();
  while (answer.status === 429);
  return answer;
}

async function refusedAtLast(what: string, call: () => Promise<Answer>, problem: Problem): Promise<void> {
  let answer: Answer | undefined;
  await until(what, async () => (answer = await call()).status === 429, 5_000);
  assertRefused(answer!, problem);
}

test('requestsPerSecond: what is beyond it is RATE_LIMITED, by the tenant and by the key, and goes through a second later', async () => {
  for (const [whose, client] of [
    ['tenant', (await tenantWith({ requestsPerSecond: 5 })).client],
    ['key', await (await tenantWith({})).key({ requestsPerSecond: 5 })],
  ] as const) {
    const says = new RegExp(`the ${whose} may have 5 requests a second`);
    const began = performance.now();
    const passed = await through(30, read(client), limited(says));
    const most = 6 + (5 * (performance.now() - began)) / 1_000;
    assert.ok(passed >= 5 && passed <= most, `${passed} went through`);
    await until('a call goes through', async () => (await read(client)()).status === 200, 3_000);
  }
});

test('RateLimit headers tell where a caller with a limit stands, on successes, on refusals and on other errors', async () => {
  const { client } = await tenantWith({ requestsPerSecond: 4 });
  const ask = (path: string): Promise<Response> =>
    fetch(client.base + path, { headers: { authorization: `Bearer ${client.key}` } });
  const standing = ({ headers }: Response): (string | null)[] =>
    ['limit', 'remaining', 'policy'].map((name) => headers.get(`ratelimit-${name}`));
  const first = await ask('/v1/queues');
  assert.equal(first.status, 200);
  assert.deepEqual(standing(first), ['4', '3', '4;w=1']);
  assert.match(first.headers.get('ratelimit-reset') ?? '', /^1$/);
  const missing = await ask('/v1/queues/none');
  assert.equal(missing.status, 404);
  assert.equal(standing(missing)[0], '4');
  const answers = await Promise.all(Array.from({ length: 12 }, () => ask('/v1/queues')));
  const refused = answers.filter(({ status }) => status === 429);
  assert.ok(refused.length >= 8, `${refused.length} were refused`);
  for (const each of refused) {
    assert.deepEqual(standing(each), ['4', '0', '4;w=1']);
    assert.equal(each.headers.get('ratelimit-reset'), '1');
    assert.ok(Number(each.headers.get('retry-after')) >= 1);
  }
});

test('RateLimit headers are of the nearer limit, and absent without one', async () => {
  const tenant = await tenantWith({ requestsPerSecond: 100 });
  const ask = async (client: Client): Promise<string | null> => {
    const answer = await fetch(`${client.base}/v1/queues`, { headers: { authorization: `Bearer ${client.key}` } });
    return answer.headers.get('ratelimit-limit');
  };
  assert.equal(await ask(tenant.client), '100');
  assert.equal(await ask(await tenant.key({ requestsPerSecond: 3 })), '3');
  assert.equal(await ask(await tenant.key({ requestsPerSecond: 1_000 })), '100');
  assert.equal(await ask((await tenantWith({ jobsPerSecond: 1 })).client), null);
});

test('a limit of a key touches no other key, and what it refuses spends nothing of its tenant’s', async () => {
  const tenant = await tenantWith({ requestsPerSecond: 30 });
  const narrow = await tenant.key({ requestsPerSecond: 2 });
  const passed = await through(60, read(narrow), limited(/the key may have 2 requests a second/));
  assert.ok(passed >= 2 && passed <= 4, `${passed} went through`);
  assert.equal(await through(25, read(tenant.client), limited(/the tenant/)), 25);
});

test('a tenant at its limit is refused alone: its neighbours are not', async () => {
  const [{ client }, neighbour] = [await tenantWith({ requestsPerSecond: 1 }), await service.tenant()];
  const flood = through(50, read(client), limited(/1 request a second/));
  assert.equal(await through(50, read(neighbour), limited(/none/)), 50);
  assert.ok((await flood) <= 3);
});

test('jobsPerSecond: a batch counts its jobs, goes beyond as a whole while anything is left, and is made up for; a refused one stores nothing', async () => {
  for (const [whose, client] of [
    ['tenant', (await tenantWith({ jobsPerSecond: 10 })).client],
    ['key', await (await tenantWith({})).key({ jobsPerSecond: 10 })],
  ] as const) {
    const refused = limited(new RegExp(`the ${whose} may have 10 jobs a second`));
    assert.equal((await batch(client, 25)).status, 201);
    const answer = await batch(client, 3);
    assertRefused(answer, refused);
    assert.ok(Number(answer.headers.get('retry-after')) >= 2, 'what went beyond has to be made up for');
    assertRefused(await client.post('/v1/queues/q/jobs', {}), refused);
    assert.equal(await stored(client), 25);
    assert.equal((await read(client)()).status, 200);
    await until('a job goes through', async () => (await client.post('/v1/queues/q/jobs', {})).status === 201, 5_000);
    assert.equal(await stored(client), 26);
  }
});

test('an enqueue over REST that is beyond jobsPerSecond or storedJobs is refused before its body is read', async () => {
  for (const limits of [{ jobsPerSecond: 1 }, { storedJobs: 1 }]) {
    const { client } = await tenantWith(limits);
    const headersAlone = (path: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const headers = { authorization: `Bearer ${client.key}`, 'content-length': 1_000_000 };
        const asked = request(client.base + path, { method: 'POST', headers }, ({ statusCode }) => {
          resolve(statusCode);
          asked.destroy();
        });
        asked.on('error', reject).flushHeaders();
      });
    await enqueue(client, 'q');
    assert.equal(await headersAlone('/v1/queues/q/jobs'), 429);
    assert.equal(await headersAlone('/v1/jobs/batch'), 429);
  }
});

test('storedJobs: what would pass it is QUOTA_EXCEEDED, all or none; acks and a purge make room', async () => {
  const { client } = await tenantWith({ storedJobs: 4 });
  const refused = exceeded(/the tenant may have 4 stored jobs/);
  assertRefused(await batch(client, 5), refused);
  assert.equal((await batch(client, 3)).status, 201);
  await refusedAtLast('two more are refused', () => batch(client, 2), refused);
  assert.equal(await stored(client), 3);
  await enqueue(client, 'q', { delay: '1h' });
  assertRefused(await client.post('/v1/queues/other/jobs', {}), refused);
  assert.equal((await client.get('/v1/queues/other')).status, 404);
  await settleOk(client, 'ack', await leaseOne(client, 'q'));
  const more = async (): Promise<boolean> => (await client.post('/v1/queues/q/jobs', {})).status === 201;
  await until('the ack makes room for one', more, 3_000);
  await refusedAtLast('and no more', () => client.post('/v1/queues/q/jobs', {}), refused);
  assert.equal((await client.post('/v1/queues/q/purge')).status, 202);
  await until('the purge makes room', async () => (await batch(client, 4)).status === 201, 3_000);
  await refusedAtLast('for four', () => batch(client, 1), refused);
  assert.equal(await stored(client), 4);
});

test('queues: no enqueue, batch, PUT or dead letter queue makes one too many, and none is made by a call that is refused', async () => {
  const { client } = await tenantWith({ queues: 2 });
  const refused = exceeded(/the tenant may have 2 queues/);
  await enqueue(client, 'a');
  await putQueue(client, 'b');
  assertRefused(await client.post('/v1/queues/c/jobs', {}), refused);
  assertRefused(await client.put('/v1/queues/c'), refused);
  assertRefused(await client.put('/v1/queues/a', { deadLetterQueue: 'c' }), refused);
  assertRefused(await client.post('/v1/jobs/batch', { jobs: [{ queue: 'a' }, { queue: 'c' }] }), refused);
  const two = (await tenantWith({ queues: 1 })).client;
  assertRefused(await two.post('/v1/jobs/batch', { jobs: [{ queue: 'c' }, { queue: 'd' }] }), exceeded(/1 queue$/));
  assert.deepEqual((await two.get('/v1/queues')).body.queues, []);
  const names = (await client.get('/v1/queues')).body.queues.map(({ name }: { name: string }) => name);
  assert.deepEqual(names, ['a', 'b']);
  assert.equal(await stored(client, 'a'), 1);
  await putQueue(client, 'a', { deadLetterQueue: 'b', maxAttempts: 2 });
  await enqueue(client, 'b');
  assert.ok([200, 202].includes((await client.delete('/v1/queues/b?force=true')).status));
  await until('the deleted one makes room', async () => (await client.put('/v1/queues/c')).status === 200, 5_000);
});

test('queues: creations at once never pass the limit together', async () => {
  const { client } = await tenantWith({ queues: 3 });
  const calls = Array.from({ length: 16 }, (_, index) =>
    index % 2 === 0 ? client.post(`/v1/queues/q${index}/jobs`, {}) : client.put(`/v1/queues/q${index}`),
  );
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status < 300).length, 3, statuses.join(' '));
  assert.equal(statuses.filter((status) => status === 429).length, 13, statuses.join(' '));
  assert.equal((await client.get('/v1/queues')).body.queues.length, 3);
});

test('a refusal for queues or backlog spends none of jobsPerSecond', async () => {
  const { client } = await tenantWith({ queues: 1, jobsPerSecond: 5 });
  await putQueue(client, 'q', { maxBacklog: 1 });
  assertRefused(await batch(client, 100, 'other'), exceeded(/1 queue$/));
  await enqueue(client, 'q');
  assertRefused(await batch(client, 100), { status: 429, code: 'BACKLOG_FULL' });
  await leaseOne(client, 'q');
  await enqueue(client, 'q');
});

test('payloadBytes: the queue’s own bound holds up to the tenant’s, which is 256 KiB for queues without one unless given', async () => {
  const text = (bytes: number): string => JSON.stringify({ payload: 'x'.repeat(bytes - 2) });
  const send = (client: Client, bytes: number, queue = 'q'): Promise<Answer> =>
    client.post(`/v1/queues/${queue}/jobs`, text(bytes));
  const plain = (await tenantWith({})).client;
  assert.equal((await send(plain, 262_144)).status, 201);
  assertProblem(await send(plain, 262_145), tooLarge('payload', /at most 262144 bytes/));
  await putQueue(plain, 'large', { maxPayloadBytes: 2_097_152 });
  assert.equal((await send(plain, 2_000_000, 'large')).status, 201);
  const narrow = (await tenantWith({ payloadBytes: 1_000 })).client;
  await putQueue(narrow, 'large', { maxPayloadBytes: 2_000 });
  for (const queue of ['q', 'large']) {
    assert.equal((await send(narrow, 1_000, queue)).status, 201);
    assertProblem(await send(narrow, 1_001, queue), tooLarge('payload', /at most 1000 bytes/));
  }
  const wide = await tenantWith({ payloadBytes: 2_097_152 });
  assert.equal((await send(wide.client, 2_097_152)).status, 201);
  assertProblem(await send(wide.client, 2_097_153), tooLarge('payload', /at most 2097152 bytes/));
  assertProblem(await send(await wide.key({ payloadBytes: 10 }), 11), tooLarge('payload', /at most 10 bytes/));
  const tooMuch = await service.admin.patch(`/v1/admin/tenants/${wide.name}`, { limits: { payloadBytes: 2_097_153 } });
  assertProblem(tooMuch, { status: 400, code: 'INVALID_ARGUMENT', fields: ['limits.payloadBytes'] });
});

test('parkedLeases: leases and calls that wait for a job’s end are counted while they wait; others are not', async () => {
  for (const [whose, client] of [
    ['tenant', (await tenantWith({ parkedLeases: 2 })).client],
    ['key', await (await tenantWith({})).key({ parkedLeases: 2 })],
  ] as const) {
    const refused = exceeded(new RegExp(`the ${whose} may have 2 parked leases at once`));
    const id = await enqueue(client, 'busy');
    const job = await leaseOne(client, 'busy');
    const ended = patiently(() => client.get(`/v1/jobs/${id}?wait=20s`));
    const waiting = patiently(() => client.post('/v1/queues/empty/lease', { wait: '20s' }));
    const third = (): Promise<Answer> => client.post('/v1/queues/empty/lease', { wait: '200ms' });
    await refusedAtLast('a third is refused', third, refused);
    assertRefused(await client.get(`/v1/jobs/${id}?wait=20s`), refused);
    assert.equal((await client.post('/v1/queues/empty/lease', {})).status, 200);
    assert.equal((await client.get(`/v1/jobs/${id}`)).status, 200);
    await enqueue(client, 'other');
    await leaseOne(client, 'other', { wait: '20s' });
    await settleOk(client, 'ack', job);
    assert.equal((await ended).body.state, 'completed');
    await enqueue(client, 'empty');
    assert.equal((await waiting).body.jobs.length, 1);
    assert.deepEqual(
      (await Promise.all([third(), third()])).map(({ status }) => status),
      [200, 200],
    );
  }
});

test('streams: one too many is refused with RESOURCE_EXHAUSTED, and the place of one that has ended is free', async () => {
  for (const [whose, client] of [
    ['tenant', (await tenantWith({ streams: 1, requestsPerSecond: 20, parkedLeases: 1 })).client],
    ['key', await (await tenantWith({})).key({ streams: 1, requestsPerSecond: 20, parkedLeases: 1 })],
  ] as const) {
    await putQueue(client, 'q');
    const grpc = grpcClient(service.grpc, client.key);
    const open = (): ReturnType<typeof grpc.work> => {
      const stream = grpc.work();
      stream.send({ hello: { queues: [{ name: 'q' }], credits: 10 } });
      return stream;
    };
    const first = open();
    await enqueue(client, 'q');
    await until('the first works', () => first.received.length > 0);
    const { code, details } = await open().ended;
    assert.equal(code, 8);
    assert.match(details, new RegExp(`the ${whose} may have 1 stream at once`));
    // A stream that waits is no parked lease, and its leases are no requests.
    assert.equal((await client.post('/v1/queues/none/lease', { wait: '100ms' })).status, 200);
    first.stream.end();
    await first.ended;
    const second = open();
    await enqueue(client, 'q');
    await until('another works in its place', () => second.received.length > 0);
    second.stream.end();
    await second.ended;
    grpc.close();
  }
});

test('limits that are set, changed or taken away hold on every instance within 5 s', async () => {
  const other = await service.another();
  try {
    const tenant = await tenantWith({});
    const far = clientFor(other.base, tenant.client.key);
    assert.equal((await read(far)()).status, 200);
    const rate = async (): Promise<string | null> => {
      const answer = await fetch(`${other.base}/v1/queues`, { headers: { authorization: `Bearer ${far.key}` } });
      return answer.headers.get('ratelimit-limit');
    };
    await tenant.change({ limits: { requestsPerSecond: 3, queues: 1 } });
    await until('the limit holds', async () => (await rate()) === '3', 5_000);
    const passed = await through(20, read(far), limited(/3 requests a second/));
    assert.ok(passed <= 5, `${passed} went through`);
    await tenant.change({ limits: { requestsPerSecond: 500 } });
    await until('the changed one holds', async () => (await rate()) === '500', 5_000);
    assert.equal((await patiently(() => far.put('/v1/queues/a'))).status, 200);
    assertRefused(await far.post('/v1/queues/b/jobs', {}), exceeded(/1 queue$/));
    await tenant.change({ reset: ['requestsPerSecond', 'queues'] });
    await until('none holds', async () => (await rate()) === null, 5_000);
    assert.equal(await through(50, read(far), limited(/none/)), 50);
    await enqueue(far, 'b');
  } finally {
    await other.stop();
  }
});

test('parked leases that the limit is lowered below go on, and the next is refused', async () => {
  const { client, change } = await tenantWith({ parkedLeases: 10 });
  const waiting = [1, 2].map(() => client.post('/v1/queues/q/lease', { wait: '20s' }));
  const parked = async () => /^stint_parked_leases 2$/m.test(await (await fetch(`${service.base}/metrics`)).text());
  await until('both wait', parked);
  await change({ limits: { parkedLeases: 1 } });
  const next = (): Promise<Answer> => client.post('/v1/queues/q/lease', { wait: '100ms' });
  await refusedAtLast('the next is refused', next, exceeded(/1 parked lease at once/));
  assert.equal((await batch(client, 2)).status, 201);
  for (const answer of await Promise.all(waiting)) assert.equal(answer.body.jobs.length, 1);
});

test('nothing that was accepted is lost while calls around it are refused', async () => {
  const { client } = await tenantWith({ jobsPerSecond: 20, storedJobs: 60 });
  const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => batch(client, 1 + (index % 4))));
  const ids = answers.flatMap(({ body }) => (body.jobs ?? []).map(({ id }: { id: string }) => id) as string[]);
  assert.equal(await stored(client), ids.length);
  const { body } = await client.post('/v1/queues/q/lease', { maxJobs: 1_000 });
  assert.deepEqual(body.jobs.map(({ id }: { id: string }) => id).sort(), ids.sort());
  assert.ok(answers.some(({ status }) => status === 429));
  await leased(await service.tenant(), 'q');
});
