import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { createDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { type Client, clientFor, until } from '../helpers/service.js';
import { freePort, type Running, runScript } from '../helpers/service-process.js';

/*
 * C41: five instances as processes of their own, schedules of every second, one instance stopped and continued, one killed. The two
 * minutes with a stop of 30 s are run by hand: STINT_TEST_SECONDS=120 STINT_TEST_STOPPED_SECONDS=30.
 */

const SECONDS = Number(process.env['STINT_TEST_SECONDS'] ?? 15);
const STOPPED_SECONDS = Number(process.env['STINT_TEST_STOPPED_SECONDS'] ?? 5);
const INSTANCES = 5;
const SCHEDULES = 10;

let database: TestDatabase;
const running: Running[] = [];
const clients: Client[] = [];

before(async () => {
  database = await createDatabase();
  const adminKey = `test-admin-${randomBytes(16).toString('hex')}`;
  for (let n = 0; n < INSTANCES; n += 1) {
    const port = await freePort();
    const instance = runScript('src/main.js', ['serve'], {
      STINT_DATABASE_URL: database.url,
      STINT_ADMIN_KEY: adminKey,
      STINT_HTTP_PORT: String(port),
      STINT_GRPC_PORT: '0',
    });
    running.push(instance);
    await until('it is ready', () => /Stint is ready at .*\n/.test(instance.output()), 40_000);
    clients.push(clientFor(`http://127.0.0.1:${port}`, adminKey));
  }
});

after(async () => {
  for (const { child } of running) child.kill('SIGKILL');
  await Promise.all(running.map(({ exit }) => exit));
  await database.drop();
});

interface Fire {
  readonly schedule: string;
  /** Seconds since 1970. */
  readonly at: number;
  readonly lateMs: number;
}

async function fires(): Promise<Fire[]> {
  return query(
    database.url,
    `select headers::json ->> 'stint-schedule' as schedule, extract(epoch from fire_at)::int as at,
      (extract(epoch from created_at - fire_at) * 1000)::float8 as "lateMs"
    from stint.job, lateral (select (headers::json ->> 'stint-fire-at')::timestamptz as fire_at) f
    order by 1, 2`,
    [],
  );
}

test(
  'each instant makes exactly one job, whoever is stopped or killed',
  { timeout: (SECONDS + 120) * 1_000 },
  async (t) => {
    const [admin] = clients;
    const tenant = (await admin!.post('/v1/admin/tenants', { name: 'clockwork' })).body;
    const made = await admin!.post(`/v1/admin/tenants/${tenant.id}/keys`, { name: 'k', scopes: ['manage'] });
    const own = clientFor(admin!.base, made.body.secret as string);
    const names = Array.from({ length: SCHEDULES }, (_, n) => `each-second-${n}`);
    for (const name of names) {
      const answer = await own.put(`/v1/schedules/${name}`, { cron: '* * * * * *', queue: 'q', misfire: 'all' });
      assert.equal(answer.status, 200, answer.text);
    }
    await until(
      'all have fired',
      async () => new Set((await fires()).map(({ schedule }) => schedule)).size === SCHEDULES,
      30_000,
    );

    const [, stopped, killed] = running;
    const began = performance.now();
    await pause(SECONDS * 200);
    stopped!.child.kill('SIGSTOP');
    await pause((STOPPED_SECONDS * 1_000) / 2);
    killed!.child.kill('SIGKILL');
    await pause((STOPPED_SECONDS * 1_000) / 2);
    stopped!.child.kill('SIGCONT');
    await pause(Math.max(0, SECONDS * 1_000 - (performance.now() - began)));
    for (const name of names) assert.equal((await own.post(`/v1/schedules/${name}/pause`)).status, 200);

    const all = await fires();
    for (const name of names) {
      const instants = all.filter(({ schedule }) => schedule === name).map(({ at }) => at);
      assert.ok(instants.length >= SECONDS, `${name}: ${instants.length}`);
      assert.deepEqual(
        instants,
        instants.map((_, n) => instants[0]! + n),
        name,
      );
    }
    const states = await query(database.url, 'select missed::int as missed, error from stint.schedule', []);
    for (const { missed, error } of states) assert.deepEqual([missed, error], [0, null]);
    const late = all.map(({ lateMs }) => lateMs).sort((a, b) => a - b);
    const quantile = (q: number) => late[Math.min(late.length - 1, Math.floor(late.length * q))]!.toFixed(0);
    t.diagnostic(
      `${all.length} jobs; late by ${quantile(0.5)} ms (half), ${quantile(0.99)} ms (99 %), ${quantile(1)} ms (all)`,
    );
  },
);
