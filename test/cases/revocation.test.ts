import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { status as grpcStatus } from '@grpc/grpc-js';
import { codeOf, type GrpcClient, grpcClient, type WorkerStream } from '../helpers/grpc.js';
import { type Proxy, startProxy } from '../helpers/proxy.js';
import { type Answer, type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { assertProblem, enqueue, get, type Problem, settleOk } from '../contract/jobs.js';

/*
 * C67: what takes a credential its right takes effect within 5 s on every instance: on calls, on those that wait (a parked lease, a
 * wait for a job's end), and on open streams. It does so too when the other instance does not hear of it: then it finds out by itself.
 */

const WITHIN_MS = 5_000;
const REVOKED: Problem = { status: 401, code: 'UNAUTHENTICATED', says: /unknown, expired or revoked/ };
const SUSPENDED: Problem = { status: 403, code: 'PERMISSION_DENIED', says: /suspended/ };

interface Subject {
  readonly tenant: string;
  /** The key's name. */
  readonly key: string;
}

interface Ending {
  /** What takes the right. */
  readonly act: (subject: Subject) => Promise<void>;
  readonly expected: Problem;
  readonly stream: grpcStatus;
  /** Fields of the key, beyond its name and scopes. */
  readonly fields?: () => object;
  /** Milliseconds from the act's answer to the end of the right. */
  readonly later?: number;
  /** Nothing is left of what it had. */
  readonly isGone?: true;
}

let service: TestService;
let admin: Client;

const keyPath = ({ tenant, key }: Subject): string => `/v1/admin/tenants/${tenant}/keys/${key}`;

async function done(answer: Promise<Answer>): Promise<void> {
  const { status, text } = await answer;
  assert.ok(status < 300, text);
}

const ENDINGS: Readonly<Record<string, Ending>> = {
  'a key that is revoked': {
    act: (subject) => done(admin.delete(keyPath(subject))),
    expected: REVOKED,
    stream: grpcStatus.UNAUTHENTICATED,
  },
  'a secret that is rotated out with no overlap': {
    act: (subject) => done(admin.post(`${keyPath(subject)}/rotate`, { overlap: '0s' })),
    expected: REVOKED,
    stream: grpcStatus.UNAUTHENTICATED,
  },
  'a secret whose overlap is over': {
    act: (subject) => done(admin.post(`${keyPath(subject)}/rotate`, { overlap: '2s' })),
    expected: REVOKED,
    stream: grpcStatus.UNAUTHENTICATED,
    later: 2_000,
  },
  'a key that expires': {
    act: () => Promise.resolve(),
    fields: () => ({ expiresAt: new Date(Date.now() + 4_000).toISOString() }),
    expected: REVOKED,
    stream: grpcStatus.UNAUTHENTICATED,
    later: 4_000,
  },
  'a tenant that is suspended': {
    act: ({ tenant }) => done(admin.post(`/v1/admin/tenants/${tenant}/suspend`)),
    expected: SUSPENDED,
    stream: grpcStatus.PERMISSION_DENIED,
  },
  'a tenant that is deleted': {
    act: ({ tenant }) => done(admin.delete(`/v1/admin/tenants/${tenant}`)),
    isGone: true,
    expected: REVOKED,
    stream: grpcStatus.UNAUTHENTICATED,
  },
};

before(async () => {
  service = await startTestService();
  admin = service.admin;
});
after(() => service.stop());

let made = 0;
async function newSubject(fields: object = {}): Promise<Subject & { readonly secret: string; readonly owner: Client }> {
  const name = `subject-${++made}`;
  const owner = await service.tenant({ name });
  const scopes = ['enqueue', 'work', 'read', 'manage'];
  const key = await admin.post(`/v1/admin/tenants/${name}/keys`, { name: 'held', scopes, ...fields });
  assert.equal(key.status, 201, key.text);
  return { tenant: name, key: 'held', secret: key.body.secret as string, owner };
}

/** All the ways of waiting with one credential on one instance. */
class Holding {
  readonly client: Client;
  readonly #grpc: GrpcClient;
  readonly stream: WorkerStream;
  /** What each way of waiting was told, and when. */
  readonly told = new Map<string, { readonly what: unknown; readonly at: number }>();

  constructor(
    readonly on: TestService,
    secret: string,
    jobId: string,
  ) {
    this.client = clientFor(on.base, secret);
    this.#grpc = grpcClient(on.grpc, secret);
    this.stream = this.#grpc.work();
    this.stream.send({ hello: { queues: [{ name: 'streamed' }], credits: 10 } });
    this.#hear('a wait for a job’s end', this.client.get(`/v1/jobs/${jobId}?wait=60s`));
    this.#hear('a parked lease', this.client.post('/v1/queues/empty/lease', { wait: '60s' }));
    this.#hear('a parked lease of a name without a queue', this.client.post('/v1/queues/none/lease', { wait: '60s' }));
    const message = { queue: 'empty', wait: { seconds: 60 } };
    this.#hear('a parked lease over gRPC', this.#grpc.call('Jobs', 'Lease', message).then(withoutJobs, codeOf));
    this.#hear('a stream', this.stream.ended);
  }

  async areHeld(parked: number): Promise<void> {
    const jobs = (): any[] => this.stream.received.flatMap((message) => message.jobs?.jobs ?? []);
    await until('the stream has its jobs', () => jobs().length === 2);
    await until('all wait', async () => (await this.#parked()) >= parked);
    assert.deepEqual([...this.told], []);
  }

  async #parked(): Promise<number> {
    const response = await fetch(`${this.on.base}/metrics`);
    return Number(/^stint_parked_leases (\d+)$/m.exec(await response.text())?.[1]);
  }

  close(): void {
    this.stream.stream.cancel();
    this.#grpc.close();
  }

  #hear(name: string, promise: Promise<unknown>): void {
    void promise.then((what) => this.told.set(name, { what, at: performance.now() }));
  }
}

const NO_JOBS = 'no jobs';

function isWithoutJobs({ status, body }: Answer): boolean {
  return status === 200 && Array.isArray(body.jobs) && body.jobs.length === 0;
}

/** A lease whose claim is under way when its right ends is answered by what the claim finds: nothing. */
function withoutJobs({ jobs }: { readonly jobs: readonly unknown[] }): typeof NO_JOBS {
  assert.deepEqual(jobs, []);
  return NO_JOBS;
}

/** Lets the ending come, and holds all that wait on that instance, and its calls, to their time. */
async function holdTo({ act, expected, stream, fields, later = 0, isGone }: Ending, other: TestService): Promise<void> {
  const subject = await newSubject(fields?.());
  const began = performance.now();
  const job = await enqueue(subject.owner, 'waited');
  const streamed = [await enqueue(subject.owner, 'streamed'), await enqueue(subject.owner, 'streamed')];
  await done(subject.owner.put('/v1/queues/empty', {}));
  const holding = new Holding(other, subject.secret, job);
  try {
    await holding.areHeld(4);
    await act(subject);
    const countsFrom = fields === undefined ? performance.now() + later : began + later;
    await until('calls are refused', async () => (await holding.client.get('/v1/queues')).status === expected.status);
    assert.ok(
      performance.now() - countsFrom < WITHIN_MS,
      `a call went through for ${performance.now() - countsFrom} ms`,
    );
    await until('all that waited are told', () => holding.told.size === 5);
    for (const [name, { what, at }] of holding.told) {
      // Expiries are compared with the database's clock, which may be a little ahead.
      assert.ok(at > countsFrom - later - 1_000 && at - countsFrom < WITHIN_MS, `${name}: after ${at - countsFrom} ms`);
      if (name === 'a stream') {
        const { code, details } = what as { code: number; details: string };
        assert.equal(code, stream);
        assert.match(details, expected.says!);
      } else if (typeof what === 'string') {
        assert.ok([expected.code, NO_JOBS].includes(what), what);
      } else if (!isWithoutJobs(what as Answer)) {
        assertProblem(what as Answer, expected);
      }
    }
    // What the stream was sent it may go on with, as soon as it has another credential.
    if (isGone !== true) assert.equal(await currentLeases(streamed), streamed.length);
  } finally {
    holding.close();
  }
}

async function currentLeases(jobs: readonly string[]): Promise<number> {
  const rows = await service.sql(
    'select from stint.lease where job_id = any($1::uuid[]) and lease_expires_at > clock_timestamp()',
    [jobs],
  );
  return rows.length;
}

for (const [name, ending] of Object.entries(ENDINGS)) {
  describe(`C67: ${name}`, () => {
    let other: TestService;
    afterEach(() => other.stop());

    test('is refused within 5 s on another instance, also to what waits there and to streams', async () => {
      other = await service.another();
      await holdTo(ending, other);
    });

    test('is refused within 5 s on an instance that hears nothing of it', async () => {
      const proxy = await startProxy(service.database.url);
      other = await service.another({ STINT_DATABASE_URL: proxy.url });
      try {
        await deafen(proxy);
        await holdTo(ending, other);
      } finally {
        await proxy.close();
      }
    });
  });
}

/** From now on the instance behind the proxy hears no other: its connection for that is silent, and every new one too. */
async function deafen(proxy: Proxy): Promise<void> {
  const listens = (): boolean => [...proxy.links].some((link) => link.name === 'stint wakeups');
  await until('it listens', listens);
  Object.assign(proxy.rules, {
    toClient: (_: Buffer, link: { readonly name: string }) => (link.name === 'stint wakeups' ? 'drop' : 'pass'),
  });
}

describe('C67: while the connection of another instance for wake-ups is cut again and again', () => {
  test('a revocation takes effect there within 5 s', async () => {
    const other = await service.another();
    const cut = async (): Promise<void> => {
      await service.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'stint wakeups'`,
      );
    };
    const cutting = setInterval(() => void cut().catch(() => undefined), 50);
    try {
      await holdTo(ENDINGS['a key that is revoked']!, other);
    } finally {
      clearInterval(cutting);
      await other.stop();
    }
  });
});

describe('a tenant that is resumed', () => {
  test('is let in again within 5 s on every instance; leases that a stream of it held are as they were', async () => {
    const other = await service.another();
    const { tenant, secret, owner } = await newSubject();
    await enqueue(owner, 'streamed');
    const there = clientFor(other.base, secret);
    const grpc = grpcClient(other.grpc, secret);
    try {
      const stream = grpc.work();
      stream.send({ hello: { queues: [{ name: 'streamed' }], credits: 10, visibilityTimeout: { seconds: 600 } } });
      await until('it has a job', () => stream.received.length === 1);
      await done(admin.post(`/v1/admin/tenants/${tenant}/suspend`));
      assert.equal((await stream.ended).code, grpcStatus.PERMISSION_DENIED);
      assertProblem(await there.get('/v1/queues'), SUSPENDED);
      await done(admin.post(`/v1/admin/tenants/${tenant}/resume`));
      const began = performance.now();
      await until('it is let in', async () => (await there.get('/v1/queues')).status === 200);
      assert.ok(performance.now() - began < WITHIN_MS);
      const [{ id, leaseToken }] = stream.received[0].jobs.jobs;
      assert.equal((await get(there, id)).state, 'leased');
      await settleOk(there, 'ack', { id, leaseToken });
    } finally {
      grpc.close();
      await other.stop();
    }
  });
});

describe('a neighbour', () => {
  test('is told nothing when another tenant is suspended: its leases go on waiting and its stream stays open', async () => {
    const [{ tenant }, neighbour] = [await newSubject(), await newSubject()];
    const grpc = grpcClient(service.grpc, neighbour.secret);
    const client = clientFor(service.base, neighbour.secret);
    try {
      const stream = grpc.work();
      stream.send({ hello: { queues: [{ name: 'streamed' }], credits: 1 } });
      const parked = client.post('/v1/queues/parked/lease', { wait: '30s' });
      await done(admin.post(`/v1/admin/tenants/${tenant}/suspend`));
      await enqueue(client, 'streamed');
      await until('the stream has a job', () => stream.received.length === 1);
      await enqueue(client, 'parked');
      assert.equal((await parked).body.jobs.length, 1);
      stream.stream.cancel();
      await stream.ended;
    } finally {
      grpc.close();
    }
  });
});
