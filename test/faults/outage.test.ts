import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { type EmbeddedPostgres, startEmbedded } from '../../src/db/embedded.js';
import { checkInvariants } from '../helpers/invariants.js';
import { query } from '../helpers/postgres.js';
import { type Answer, type Client, until } from '../helpers/service.js';
import { Fleet, THIS_VERSION } from '../upgrade/fleet.js';
import { tenantOf } from '../upgrade/tenant.js';

const OUTAGE_MS = 20_000;
const RECOVERY_MS = 10_000;
const log = pino({ level: 'silent' });

describe('a Postgres that is killed and gone for 20 s under load (C28, C31)', () => {
  let directory: string;
  let postgres: EmbeddedPostgres;
  let fleet: Fleet;
  let client: Client;
  const accepted = new Set<string>();
  const acked = new Set<string>();
  const unexpected: string[] = [];
  let refused = 0;
  const on = { producing: true, working: true };

  before(async () => {
    directory = await mkdtemp(path.join(tmpdir(), 'stint-outage-'));
    postgres = await startEmbedded({ dataDirectory: directory, log });
    fleet = await Fleet.start(THIS_VERSION, { databaseUrl: postgres.url, size: 1 });
    client = await tenantOf(fleet);
  });

  after(async () => {
    await fleet.stop();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true, maxRetries: 10 });
  });

  /** kill -9, and nobody starts it again. */
  async function kill(): Promise<void> {
    const file = path.join(directory, 'postgres', 'data', 'postmaster.pid');
    const pid = Number((await readFile(file, 'utf8')).split('\n')[0]);
    process.kill(pid, 'SIGKILL');
    // In the same turn, so that its end is no surprise that would be mended.
    await postgres.stop();
  }

  /** The answer of a call that is made until it is no longer refused with an invitation to come back. */
  async function persistent(url: string, body: object): Promise<Answer> {
    for (;;) {
      const answer = await client.post(url, body);
      if (answer.status !== 503 || !answer.headers.has('retry-after')) return answer;
      refused += 1;
      await pause(Number(answer.headers.get('retry-after')) * 200);
    }
  }

  async function produce(): Promise<void> {
    while (on.producing) {
      const { status, body, text } = await persistent('/v1/queues/load/jobs', { payload: accepted.size });
      if (status === 201) accepted.add(body.id as string);
      else unexpected.push(text);
    }
  }

  async function work(): Promise<void> {
    while (on.working) {
      const { status, body, text } = await persistent('/v1/queues/load/lease', { maxJobs: 10, wait: '1s' });
      if (status !== 200) unexpected.push(text);
      for (const { id, leaseToken } of status === 200 ? body.jobs : []) {
        if (acked.has(id as string)) unexpected.push(`${id} was handed out after its ack`);
        const settled = await persistent(`/v1/jobs/${id}/ack`, { leaseToken });
        // An ack whose answer was lost, and one whose lease was given back with its answer lost, are told apart.
        const { outcome = settled.body.code } = settled.body;
        if (outcome === 'OK' || outcome === 'ALREADY_SETTLED') acked.add(id as string);
        else if (outcome !== 'LEASE_LOST') unexpected.push(settled.text);
      }
    }
  }

  it('loses nothing, and works again within 10 s of its return, without a restart', { timeout: 120_000 }, async () => {
    assert.equal((await client.post('/v1/queues/later/jobs', { delay: '10s' })).status, 201);
    const { pid } = fleet.process(fleet.instances[0]!).child;
    const producers = Array.from({ length: 6 }, () => produce());
    const workers = Array.from({ length: 6 }, () => work());
    await until('jobs flow', () => acked.size > 300);
    await kill();
    await until('readiness says no', async () => (await client.get('/readyz')).status === 503);
    await pause(OUTAGE_MS);
    assert.ok(refused > 20, `${refused} refusals`);

    postgres = await startEmbedded({ dataDirectory: directory, port: postgres.port, log });
    const began = performance.now();
    const before = acked.size;
    await until('readiness says yes', async () => (await client.get('/readyz')).status === 200, RECOVERY_MS);
    await until('jobs flow again', () => acked.size > before + 100, RECOVERY_MS);
    await until('the scheduled job is ready', async () => (await ready('later')) === 1, RECOVERY_MS);
    await until('wake-ups are heard', async () => (await notificationsHealthy()) === 1, RECOVERY_MS);
    const took = performance.now() - began;
    assert.ok(took < RECOVERY_MS, `took ${took} ms`);

    on.producing = false;
    await Promise.all(producers);
    await until('all are done', () => [...accepted].every((id) => acked.has(id)), 60_000);
    on.working = false;
    await Promise.all(workers);
    assert.deepEqual(unexpected, []);
    assert.equal(fleet.process(fleet.instances[0]!).child.pid, pid);
    const found = await query(
      postgres.url,
      `select count(*)::int as n from stint.finished where ended = 'acked' and job_id = any($1::uuid[])`,
      [[...acked]],
    );
    assert.deepEqual(found, [{ n: acked.size }]);
    await checkInvariants({ sql: (text, params) => query(postgres.url, text, params) });
  });

  async function ready(queue: string): Promise<number> {
    return (await client.get(`/v1/queues/${queue}/stats`)).body.counts?.ready as number;
  }

  async function notificationsHealthy(): Promise<number> {
    const { text } = await client.get('/metrics');
    return Number(/^stint_notifications_healthy (\d)$/m.exec(text)?.[1]);
  }
});
