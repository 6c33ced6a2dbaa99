import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { createDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { startTestServer, type TestServer } from '../helpers/postgres-server.js';
import { checkInvariants } from '../helpers/invariants.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

const MOST_MS = 1_000;
const BATCH = 100;

/** Producers and workers on two instances that never let the queue run dry, so that claims always get their fill. */
class Traffic {
  private readonly seen = new Map<string, number>();
  private running = true;
  private readonly loops: Promise<void>[];
  private failure: Error | undefined;
  leases = 0;

  constructor(
    clients: readonly Client[],
    readonly queue: string,
  ) {
    this.loops = clients.map((client) =>
      this.work(client).catch((error: unknown) => void (this.failure ??= error as Error)),
    );
  }

  leasedAt(id: string): number | undefined {
    return this.seen.get(id);
  }

  /** Comes back when as many more leases were given, so that cursors and floors are where they would be under load. */
  async flow(leases: number): Promise<void> {
    const goal = this.leases + leases;
    await until(`${leases} more leases`, () => this.leases >= goal || this.failure !== undefined, 30_000);
    if (this.failure !== undefined) throw this.failure;
  }

  async stop(): Promise<void> {
    this.running = false;
    await Promise.all(this.loops);
    if (this.failure !== undefined) throw this.failure;
  }

  private async work(client: Client): Promise<void> {
    for (let ahead = 5 * BATCH; this.running; ahead = BATCH) {
      const jobs = Array.from({ length: ahead }, () => ({ queue: this.queue }));
      const enqueued = await client.post('/v1/jobs/batch', { jobs });
      assert.equal(enqueued.status, 201, enqueued.text);
      const leased = await client.post(`/v1/queues/${this.queue}/lease`, { maxJobs: BATCH, wait: '5s' });
      assert.equal(leased.status, 200, leased.text);
      for (const { id } of leased.body.jobs) this.seen.set(id, performance.now());
      this.leases += Number(leased.body.jobs.length);
      const acks = leased.body.jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken }));
      const settled = await client.post('/v1/leases/settle', { acks });
      assert.ok(
        settled.body.acks.every(({ outcome }: { outcome: string }) => outcome === 'OK'),
        settled.text,
      );
    }
  }
}

describe('a job is leased within a second of being visible, by either of two instances', () => {
  let server: TestServer;
  let database: TestDatabase;
  let first: TestService;
  let services: TestService[];
  let clients: Client[];

  before(async () => {
    // A standby that nobody is makes every commit hang that waits for it: on a server of its own.
    server = await startTestServer();
    database = await createDatabase(server.url);
    const name = new URL(database.url).pathname.slice(1);
    await query(server.url, `alter database ${name} set synchronous_commit = local`);
    await query(server.url, `alter system set synchronous_standby_names = 'nobody'`);
    await query(server.url, 'select pg_reload_conf()');
    first = await startTestService();
    const one = await first.another({ STINT_DATABASE_URL: database.url });
    services = [one, await one.another({ STINT_DATABASE_URL: database.url })];
    const client = await one.tenant();
    clients = services.map(({ base }) => clientFor(base, client.key));
  });

  after(async () => {
    await query(server.url, 'alter system reset synchronous_standby_names');
    await query(server.url, 'select pg_reload_conf()');
    for (const service of services.reverse()) await service.stop();
    await first.stop();
    await database.drop();
    await server.stop();
  });

  async function withConnection<T>(use: (connection: pg.Client) => Promise<T>): Promise<T> {
    const connection = new pg.Client({ connectionString: database.url });
    await connection.connect();
    try {
      return await use(connection);
    } finally {
      await connection.end();
    }
  }

  async function queueId(name: string): Promise<number> {
    const [{ id }] = await query(database.url, 'select id from stint.queue where name = $1', [name]);
    return id;
  }

  /** A job as an enqueue of ours would write it, on a connection of the test's own, in the state its transaction is in. */
  async function insertJob(connection: pg.Client, queue: number): Promise<string> {
    const id = randomUUID();
    await connection.query(`with body as (
        insert into stint.job (id, queue_id, is_json, priority, run_at, created_at) values ('${id}', ${queue}, true, 0, now(), now())),
      counted as (insert into stint.queue_count (queue_id, ready, enqueued) values (${queue}, 1, 1))
      insert into stint.ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
      values (${queue}, 0, '${id}', now(), 0, 0, 0, 10, 'none')`);
    return id;
  }

  /** Floors raised, over both instances. */
  async function raised(): Promise<number> {
    let sum = 0;
    for (const { base } of services) {
      const text = await (await fetch(`${base}/metrics`)).text();
      const line = /^stint_task_rows_total\{task="raise-floors",count="raised"\} (\d+)$/m.exec(text);
      sum += Number(line?.[1] ?? 0);
    }
    return sum;
  }

  async function busy(queue: string, run: (traffic: Traffic, id: number) => Promise<void>): Promise<void> {
    await clients[0]!.put(`/v1/queues/${queue}`, {});
    const traffic = new Traffic([...clients, ...clients], queue);
    try {
      await traffic.flow(2_000);
      const before = await raised();
      await until('floors have risen', async () => (await raised()) > before, 10_000);
      await run(traffic, await queueId(queue));
    } finally {
      await traffic.stop();
    }
    await checkInvariants(services[0]!);
  }

  async function leasedInTime(traffic: Traffic, id: string, visible: number): Promise<void> {
    await until('the job is leased', () => traffic.leasedAt(id) !== undefined, 20_000);
    const took = traffic.leasedAt(id)! - visible;
    assert.ok(took < MOST_MS, `leased ${took} ms after it was visible`);
  }

  it('when its commit hung for longer than any timeout, while others passed it', { timeout: 120_000 }, () =>
    busy('hung', (traffic, queue) =>
      withConnection(async (connection) => {
        await connection.query('set synchronous_commit = on');
        const inserting = insertJob(connection, queue);
        const { processID } = connection as unknown as { processID: number };
        await until('the commit hangs', async () => {
          const [row] = await query(database.url, 'select wait_event from pg_stat_activity where pid = $1', [
            processID,
          ]);
          return row.wait_event === 'SyncRep';
        });
        const mark = await raised();
        await traffic.flow(8_000);
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        assert.ok(
          (await raised()) - mark <= services.length,
          'no floor rises past a writer that may bring an earlier row',
        );
        // "canceling the wait for synchronous replication": committed here, as with a standby that comes back.
        await query(server.url, 'select pg_cancel_backend($1)', [processID]);
        const visible = performance.now();
        const id = await inserting;
        await leasedInTime(traffic, id, visible);
        const later = await raised();
        await until('floors rise again', async () => (await raised()) > later, 10_000);
      }),
    ),
  );

  it('when the claim that held it was rolled back, with cursors already past it', { timeout: 120_000 }, () =>
    busy('rolled-back', (traffic, queue) =>
      withConnection(async (connection) => {
        await connection.query('begin');
        const held = await connection.query(
          `delete from stint.ready where ctid = any(array(
             select ctid from stint.ready where queue_id = $1 order by rank, pos limit 20 for update skip locked))
           returning job_id`,
          [queue],
        );
        assert.equal(held.rows.length, 20);
        await traffic.flow(5_000);
        assert.equal(held.rows.filter(({ job_id: id }) => traffic.leasedAt(id) !== undefined).length, 0);
        await connection.query('rollback');
        const visible = performance.now();
        for (const { job_id: id } of held.rows) await leasedInTime(traffic, id, visible);
      }),
    ),
  );

  it('when it is of a better priority, and comes when the cursors are far on', { timeout: 120_000 }, () =>
    busy('better', async (traffic) => {
      for (let n = 0; n < 5; n += 1) {
        const answer = await clients[n % 2]!.post('/v1/queues/better/jobs', { priority: 5 + n });
        await leasedInTime(traffic, answer.body.id, performance.now());
        await traffic.flow(1_000);
      }
    }),
  );

  it('when no wake-up told of it and everybody sleeps', { timeout: 120_000 }, async () => {
    await busy('unheard', () => Promise.resolve());
    await query(database.url, `delete from stint.ready where queue_id = $1`, [await queueId('unheard')]);
    await query(database.url, `update stint.queue_count set ready = 0 where queue_id = $1`, [await queueId('unheard')]);
    for (const client of clients) {
      const parked = client.post('/v1/queues/unheard/lease', { wait: '20s' });
      await new Promise((resolve) => setTimeout(resolve, 300));
      const id = await withConnection(async (connection) => insertJob(connection, await queueId('unheard')));
      const visible = performance.now();
      const { body } = await parked;
      assert.equal(body.jobs[0]?.id, id);
      const took = performance.now() - visible;
      // The poll comes every 0.9 s, give or take a tenth; the rest is room for a busy machine.
      assert.ok(took < 2 * MOST_MS, `leased ${took} ms after it was visible`);
    }
  });
});
