import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import pg from 'pg';
import { grpcClient, type WorkerStream } from '../helpers/grpc.js';
import { checkInvariants } from '../helpers/invariants.js';
import { createDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { type Answer, type Client, until } from '../helpers/service.js';
import { logOf } from '../helpers/service-process.js';
import { Fleet, THIS_VERSION } from './fleet.js';
import { tenantOf } from './tenant.js';

const ACKS = 200;
const POLLS = 50;
const ENQUEUES = 20;
const STREAMS = 10;
/** What a stop may take with the defaults. */
const STOP_MS = 10_000;

describe('a SIGTERM with everything under way (C26, C27)', () => {
  let database: TestDatabase;
  let fleet: Fleet;
  let client: Client;
  let holder: pg.Client;

  before(async () => {
    database = await createDatabase();
    fleet = await Fleet.start(THIS_VERSION, { databaseUrl: database.url, size: 1 });
    client = await tenantOf(fleet);
    holder = new pg.Client(database.url);
    await holder.connect();
  });

  after(async () => {
    await holder.end();
    await fleet.stop();
    await database.drop();
  });

  async function leasedJobs(queue: string, count: number): Promise<{ id: string; leaseToken: string }[]> {
    const jobs = Array.from({ length: count }, () => ({ queue }));
    assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
    const { body } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: count, visibilityTimeout: '5m' });
    assert.equal(body.jobs.length, count);
    return body.jobs;
  }

  /** Streams that hold a job each. */
  async function openStreams(): Promise<{ worker: WorkerStream; job: any; close: () => void }[]> {
    const jobs = Array.from({ length: STREAMS }, () => ({ queue: 'streamed' }));
    assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
    const streams = Array.from({ length: STREAMS }, () => {
      const grpc = grpcClient(fleet.instances[0]!.grpc, client.key);
      const worker = grpc.work();
      worker.send({ hello: { queues: [{ name: 'streamed' }], credits: 1, visibilityTimeout: { seconds: 300 } } });
      return { worker, grpc };
    });
    const jobOf = (worker: WorkerStream): any => worker.received.find(({ jobs: given }) => given != null)?.jobs.jobs[0];
    await until('each has a job', () => streams.every(({ worker }) => jobOf(worker) !== undefined));
    return streams.map(({ worker, grpc }) => ({ worker, job: jobOf(worker), close: () => grpc.close() }));
  }

  it(
    `${ACKS} acks, ${POLLS} long polls, ${ENQUEUES} enqueues and ${STREAMS} streams: exit code 0 within 10 s, and every success is durable`,
    { timeout: 60_000 },
    async () => {
      const [instance] = fleet.instances;
      const leased = await leasedJobs('acked', ACKS);
      const streams = await openStreams();
      const polls = Array.from({ length: POLLS }, () => client.post('/v1/queues/idle/lease', { wait: '30s' }));
      await until('they are parked', async () => (await parked()) >= POLLS);
      // Whoever writes to these waits, so that all of it is under way when the signal comes.
      await holder.query('begin; lock table stint.job, stint.finished in exclusive mode');
      const ack = ({ id, leaseToken }: any): Promise<Answer> => client.post(`/v1/jobs/${id}/ack`, { leaseToken });
      const enqueue = (): Promise<Answer> => client.post('/v1/queues/stored/jobs', {});
      const [acks, enqueues] = [[ack(leased[0])], [enqueue()]];
      await until('a statement of each kind runs', async () => (await blocked()) === 2);
      acks.push(...leased.slice(1).map(ack));
      enqueues.push(...Array.from({ length: ENQUEUES - 1 }, enqueue));
      for (const [id, { worker, job }] of streams.entries()) {
        worker.send({ settle: { id: id + 1, items: { acks: [{ leaseToken: job.leaseToken }] } } });
      }
      await until('all of it is under way', async () => (await waiting()) === ACKS + ENQUEUES + STREAMS - 2);
      const ended = fleet.end(instance!);
      const told = ({ worker }: { worker: WorkerStream }): boolean =>
        worker.received.some(({ drain }) => drain != null);
      await until('the streams are told to go', () => streams.every(told));
      for (const { status, body } of await Promise.all(polls)) assert.deepEqual([status, body], [200, { jobs: [] }]);
      await holder.query('commit');

      const stored = (await Promise.all(enqueues)).map((answer) => succeeded(answer, 201).id as string);
      for (const answer of await Promise.all(acks)) assert.equal(succeeded(answer, 200).outcome, 'OK');
      for (const { worker } of streams) {
        await until('the settle is answered', () => worker.received.some(({ settled }) => settled != null));
        worker.stream.end();
        assert.equal((await worker.ended).code, 0);
      }
      const { code, took } = await ended;
      assert.equal(code, 0, fleet.output());
      assert.ok(took < STOP_MS, `took ${took} ms`);
      for (const { close } of streams) close();

      const acked = [...leased, ...streams.map(({ job }) => job as { id: string })].map(({ id }) => id);
      const [found] = await query(
        database.url,
        `select (select count(*) from stint.finished where ended = 'acked' and job_id = any($1::uuid[]))::int as acked,
          (select count(*) from stint.ready where job_id = any($2::uuid[]))::int as stored,
          (select count(*) from stint.lease)::int as leased`,
        [acked, stored],
      );
      assert.deepEqual(found, { acked: ACKS + STREAMS, stored: ENQUEUES, leased: 0 });
      await checkInvariants({ sql: (text, params) => query(database.url, text, params) });
      const loud = logOf(fleet.output()).filter(({ level }) => level === 'error' || level === 'fatal');
      assert.deepEqual(loud, []);
      assert.doesNotMatch(fleet.output(), /after calling end|Cannot use a pool|UnhandledPromise/);
      const sessions = await query(
        database.url,
        `select pid from pg_stat_activity where datname = current_database() and application_name like 'stint %'`,
      );
      assert.deepEqual(sessions, [], 'its connections are closed');
    },
  );

  async function parked(): Promise<number> {
    return metric(/^stint_parked_leases (\d+)$/gm);
  }

  async function blocked(): Promise<number> {
    const waits = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    return (await query(database.url, waits)).length;
  }

  /** What waits for the next statement of its kind. */
  async function waiting(): Promise<number> {
    return metric(/^stint_batch_waiting_rows\{kind="(?:enqueue|ack)"\} (\d+)$/gm);
  }

  async function metric(pattern: RegExp): Promise<number> {
    const { text } = await client.get('/metrics');
    return [...text.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0);
  }
});

function succeeded({ status, body, text }: Answer, wanted: number): any {
  assert.equal(status, wanted, text);
  return body;
}
