import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { checkInvariants } from '../helpers/invariants.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

const POOLS = ['ordinary', 'tasks', 'enqueue', 'claim', 'settle', 'heartbeat', 'vacuum', 'wakeups'];

describe('connections that the database ends (C28)', () => {
  let service: TestService;
  let other: TestService;
  let client: Client;

  before(async () => {
    service = await startTestService();
    other = await service.another();
    client = await service.tenant();
  });

  afterEach(() => checkInvariants(service));

  after(async () => {
    await other.stop();
    await service.stop();
  });

  async function terminate(name: string): Promise<number> {
    const rows = await service.sql(
      `select pg_terminate_backend(pid) as ended from pg_stat_activity where application_name = $1 and datname = current_database()`,
      [`stint ${name}`],
    );
    return rows.filter(({ ended }) => ended).length;
  }

  for (const name of POOLS.filter((pool) => pool !== 'vacuum')) {
    it(`idle connections for ${name} are made anew, and no caller of the hot path notices`, async () => {
      const queue = `idle-${name}`;
      await cycle(client, queue);
      assert.ok((await terminate(name)) > 0, 'there was one to end');
      await until(
        `a whole cycle works after those for ${name} ended`,
        () => cycle(client, queue).then(() => true),
        10_000,
      );
    });
  }

  it('the service is ready, and hears of other instances’ jobs again, soon after all of them were ended at once', async () => {
    for (const name of POOLS) await terminate(name);
    await until('ready', async () => (await client.get('/readyz')).status === 200);
    await until('listening', async () => (await metric('stint_notifications_healthy')) === 1);
    const elsewhere = clientFor(other.base, client.key);
    const parked = client.post('/v1/queues/heard/lease', { wait: '20s' });
    await pause(100);
    const began = performance.now();
    assert.equal((await elsewhere.post('/v1/queues/heard/jobs', {})).status, 201);
    assert.equal((await parked).body.jobs.length, 1);
    assert.ok(performance.now() - began < 2_000);
  });

  it(
    'under load nothing accepted is lost, nothing is leased twice, and everything goes on',
    { timeout: 60_000 },
    async () => {
      const load = new Load(client, 'load');
      const running = load.run();
      for (let round = 0; round < 3; round += 1) {
        for (const name of POOLS) {
          await terminate(name);
          await pause(60);
        }
      }
      load.stop();
      await running;
      assert.ok(load.accepted.size > 50, `${load.accepted.size} jobs went through`);
      assert.deepEqual(
        [...load.accepted].filter((id) => !load.completed.has(id)),
        [],
      );
      assert.deepEqual(load.repeated, [], 'no job was given to two workers');
      assert.deepEqual(load.unexpected, []);
      const rows = await service.sql(
        `select count(*)::int as n from stint.finished f join stint.queue q on q.id = f.queue_id where q.name = 'load' and f.attempt <> 1`,
      );
      assert.equal(rows[0].n, 0, 'no attempt was spent on it');
    },
  );

  async function metric(name: string): Promise<number> {
    const { text } = await client.get('/metrics');
    return Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
  }
});

async function cycle(client: Client, queue: string): Promise<void> {
  const made = await client.post(`/v1/queues/${queue}/jobs`, {});
  assert.equal(made.status, 201, made.text);
  const leased = await client.post(`/v1/queues/${queue}/lease`, { wait: '5s', maxJobs: 10 });
  assert.equal(leased.status, 200, leased.text);
  assert.ok(leased.body.jobs.length > 0);
  const items = leased.body.jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken }));
  for (const verb of ['heartbeat', 'ack']) {
    const settled = await client.post(`/v1/leases/${verb}`, { items });
    assert.equal(settled.status, 200, settled.text);
    for (const { outcome } of settled.body.results) assert.equal(outcome, 'OK');
  }
}

/** Producers and workers that try again after a 503, as clients do, and keep a book of what they were told. */
class Load {
  readonly accepted = new Set<string>();
  readonly completed = new Set<string>();
  readonly repeated: string[] = [];
  readonly unexpected: string[] = [];
  private readonly leased = new Set<string>();
  private producing = true;

  constructor(
    private readonly client: Client,
    private readonly queue: string,
  ) {}

  async run(): Promise<void> {
    const producers = Promise.all(Array.from({ length: 8 }, () => this.produce()));
    const workers = Promise.all(Array.from({ length: 8 }, () => this.work()));
    await producers;
    await workers;
  }

  stop(): void {
    this.producing = false;
  }

  private async produce(): Promise<void> {
    while (this.producing) {
      const { status, body, text } = await this.client.post(`/v1/queues/${this.queue}/jobs`, {});
      if (status === 201) this.accepted.add(body.id);
      else if (status !== 503) this.unexpected.push(text);
      await pause(5);
    }
  }

  private async work(): Promise<void> {
    for (let empty = 0; this.producing || empty < 3;) {
      const { status, body, text } = await this.client.post(`/v1/queues/${this.queue}/lease`, {
        maxJobs: 5,
        wait: '1s',
        visibilityTimeout: '10m',
      });
      if (status !== 200) {
        if (status !== 503) this.unexpected.push(text);
        continue;
      }
      empty = body.jobs.length === 0 ? empty + 1 : 0;
      for (const { id, leaseToken } of body.jobs) {
        if (this.leased.has(id)) this.repeated.push(id);
        this.leased.add(id);
        await this.ack(id, leaseToken);
      }
    }
  }

  private async ack(id: string, leaseToken: string): Promise<void> {
    await until('the ack is taken', async () => {
      const { status, text } = await this.client.post(`/v1/jobs/${id}/ack`, { leaseToken });
      if (status === 200) this.completed.add(id);
      else if (status !== 503) this.unexpected.push(text);
      return status !== 503;
    });
  }
}
