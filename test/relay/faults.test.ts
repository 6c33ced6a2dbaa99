import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { startProxy } from '../helpers/proxy.js';
import { until } from '../helpers/service.js';
import { endWith, freePort, runScript, type Running } from '../helpers/service-process.js';
import { createRelayRoom, type RelayRoom } from './room.js';

describe('an outbox amid faults', () => {
  let room: RelayRoom;
  const processes: Running[] = [];

  before(async () => {
    room = await createRelayRoom();
  });

  afterEach(async () => {
    for (const running of processes.splice(0)) {
      running.child.kill('SIGKILL');
      await running.exit;
    }
    await room.stopRelays();
    await room.sql('truncate stint_outbox.message');
  });

  after(() => room.close());

  /** `stint relay` in a process of its own, once it serves its health. */
  async function relayProcess(url: string): Promise<Running> {
    const running = runScript('src/main.js', ['relay'], {
      STINT_RELAY_DATABASE_URL: room.databaseUrl,
      STINT_RELAY_URL: url,
      STINT_RELAY_KEY: room.client.key,
      STINT_RELAY_PORT: '0',
      STINT_RELAY_POLL_SECONDS: '1',
    });
    processes.push(running);
    await until('it relays', () => running.output().includes('Relaying; health at'), 20_000);
    return running;
  }

  /** As if a minute had passed. */
  const claimsRunOut = () =>
    room.sql(`update stint_outbox.message set claimed_until = clock_timestamp() where claimed_by is not null`);

  const enqueueMany = (queue: string, count: number) =>
    room.sql('select count(stint_outbox.enqueue($1, n::text)) from generate_series(1, $2::int) n', [queue, count]);

  it('C31: a relay killed after Stint has taken a batch, before it was deleted, makes no second job', async () => {
    const proxy = await startProxy(room.service.base);
    let taken = false;
    proxy.rules.toClient = (chunk) => {
      if (!chunk.toString('latin1').startsWith('HTTP/1.1 201')) return 'pass';
      taken = true;
      return 'drop';
    };
    await enqueueMany('killed', 50);
    const doomed = await relayProcess(proxy.url);
    await until('Stint has taken them', () => taken, 20_000);
    await endWith(doomed, 'SIGKILL');
    assert.equal((await room.jobs('killed')).length, 50);
    const [left] = await room.sql(
      'select count(*)::int as rows, count(claimed_by)::int as claimed from stint_outbox.message',
    );
    assert.deepEqual(left, { rows: 50, claimed: 50 });

    await claimsRunOut();
    await relayProcess(room.service.base);
    await room.drained();
    assert.equal((await room.jobs('killed')).length, 50);
    await proxy.close();
  });

  it('C31: a relay killed before Stint has heard of a batch loses none', async () => {
    const proxy = await startProxy(room.service.base);
    let asked = false;
    proxy.rules.toServer = () => {
      asked = true;
      return 'drop';
    };
    await enqueueMany('unheard', 10);
    const doomed = await relayProcess(proxy.url);
    await until('it has asked', () => asked, 20_000);
    await endWith(doomed, 'SIGKILL');
    assert.deepEqual(await room.jobs('unheard'), []);
    await claimsRunOut();
    await room.relay();
    await room.drained();
    assert.equal((await room.jobs('unheard')).length, 10);
    await proxy.close();
  });

  it('killed again and again under load, it makes one job of each row', { timeout: 120_000 }, async () => {
    const written = Array.from({ length: 8 }, async (_, lane) => {
      for (let burst = 0; burst < 10; burst += 1) {
        await enqueueMany(`load-${lane}`, 20);
        await pause(50);
      }
    });
    for (let round = 0; round < 6; round += 1) {
      const doomed = await relayProcess(room.service.base);
      await pause(Math.random() * 150);
      await endWith(doomed, 'SIGKILL');
      await claimsRunOut();
    }
    await Promise.all(written);
    await claimsRunOut();
    await relayProcess(room.service.base);
    await room.drained(30_000);
    for (let lane = 0; lane < 8; lane += 1) {
      const keys = (await room.jobs(`load-${lane}`)).map(({ idempotencyKey }) => idempotencyKey as string);
      assert.deepEqual([keys.length, new Set(keys).size], [200, 200]);
    }
  });

  it('two relays at once ship 2,000 rows as 2,000 jobs, each row once', async () => {
    await enqueueMany('two', 2_000);
    const relays = [await room.relay({ batch: 50 }), await room.relay({ batch: 50 })];
    await room.drained(30_000);
    const jobs = await room.jobs('two');
    assert.equal(new Set(jobs.map(({ payload }) => payload as number)).size, 2_000);
    assert.equal(jobs.length, 2_000);
    const sent = await Promise.all(
      relays.map(async ({ port }) => {
        const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
        return ['false', 'true'].map((deduplicated) =>
          Number(
            new RegExp(`^stint_relay_sent_rows_total\\{deduplicated="${deduplicated}"\\} (\\d+)$`, 'm').exec(text)![1],
          ),
        );
      }),
    );
    assert.equal(sent[0]![0]! + sent[1]![0]!, 2_000);
    assert.deepEqual([sent[0]![1], sent[1]![1]], [0, 0], 'a row was sent by both');
    for (const [count] of sent) assert.ok(count! > 0, 'one of them did all');
  });

  it('C48: rows that come back with a restored backup make no second job, and new ones of the same ids make their own', async () => {
    const dump = async () => room.sql('select id, key, queue, payload, options from stint_outbox.message order by id');
    await enqueueMany('restored', 5);
    const backup = await dump();
    await room.relay();
    await room.drained();
    await enqueueMany('restored', 3);
    await room.drained();
    assert.equal((await room.jobs('restored')).length, 8);
    await room.stopRelays();

    for (const { id, key, queue, payload, options } of backup) {
      await room.sql(
        `insert into stint_outbox.message (id, key, queue, payload, options) overriding system value values ($1, $2, $3, $4, $5)`,
        [id, key, queue, payload, options],
      );
    }
    const next = Number(backup.at(-1)!.id) + 1;
    await room.sql(`select setval(pg_get_serial_sequence('stint_outbox.message', 'id'), $1, false)`, [next]);
    await enqueueMany('restored', 3);
    assert.deepEqual(
      (await dump()).map(({ id }) => Number(id)).slice(-3),
      [next, next + 1, next + 2],
      'ids that shipped rows had',
    );
    await room.relay();
    await room.drained();
    assert.equal((await room.jobs('restored')).length, 11);
  });

  it(
    'Stint away for long: the rows wait, the relay lives and says so, and all is shipped when it is back',
    { timeout: 90_000 },
    async () => {
      const port = String(await freePort());
      const first = await room.service.another({ STINT_HTTP_PORT: port });
      const relay = await room.relay({ url: first.base });
      await room.enqueue('away', '0');
      await room.drained();
      await first.stop();
      await enqueueMany('away', 1_500);
      const ready = async () => (await fetch(`http://127.0.0.1:${relay.port}/readyz`)).json() as Promise<any>;
      await until('it says so', async () => /^stint: .*ECONNREFUSED/.test((await ready()).detail as string));
      await room.sql(`update stint_outbox.message set created_at = created_at - interval '10 minutes'`);
      const metrics = async () => (await fetch(`http://127.0.0.1:${relay.port}/metrics`)).text();
      await until('the lag is measured', async () => /^stint_relay_lag_seconds 6\d\d\./m.test(await metrics()));
      assert.match(await metrics(), /^stint_relay_waiting_rows 1500$/m);
      const [row] = await room.sql(
        'select count(*)::int as parked from stint_outbox.message where parked_at is not null',
      );
      assert.equal(row.parked, 0);

      const second = await room.service.another({ STINT_HTTP_PORT: port });
      await room.drained(40_000);
      assert.equal((await room.jobs('away')).length, 1_501);
      assert.deepEqual(await ready(), { status: 'ok', detail: 'ok' });
      await second.stop();
    },
  );

  it(
    'the application’s database away: the relay lives and says so, and ships what is there when it is back',
    { timeout: 60_000 },
    async () => {
      const proxy = await startProxy(room.databaseUrl);
      const relay = await room.relay({ databaseUrl: proxy.url });
      await room.enqueue('back', '0');
      await room.drained();
      proxy.rules.toServer = () => 'cut';
      for (const link of proxy.links) link.cut();
      await enqueueMany('back', 20);
      const ready = async () => (await fetch(`http://127.0.0.1:${relay.port}/readyz`)).json() as Promise<any>;
      await until('it says so', async () => /^database: /.test((await ready()).detail as string));
      assert.equal((await room.jobs('back')).length, 1);
      proxy.rules.toServer = undefined;
      await room.drained(40_000);
      assert.equal((await room.jobs('back')).length, 21);
      assert.deepEqual(await ready(), { status: 'ok', detail: 'ok' });
      await room.stopRelays();
      await proxy.close();
    },
  );

  it('C28: connections that the database ends are made anew', async () => {
    const relay = await room.relay();
    await room.enqueue('ended', '0');
    await room.drained();
    const ended = await room.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'stint relay%' and datname = current_database()`,
    );
    assert.ok(ended.length >= 2, `${ended.length} connections`);
    await enqueueMany('ended', 5);
    await room.drained();
    const metrics = async () => (await fetch(`http://127.0.0.1:${relay.port}/metrics`)).text();
    await until('it listens again', async () => /^stint_relay_listening 1$/m.test(await metrics()));
    assert.equal((await room.jobs('ended')).length, 6);
  });

  it('C29: a database that is read-only for a while gets its rows shipped when it takes writes again', async () => {
    const relay = await room.relay();
    const name = new URL(room.databaseUrl).pathname.slice(1);
    const restart = () =>
      room.sql(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'stint relay%' and datname = $1`,
        [name],
      );
    await room.enqueue('read-only', '0');
    await room.drained();
    await room.service.sql(`alter database ${name} set default_transaction_read_only = on`);
    await restart();
    const ready = async () => (await fetch(`http://127.0.0.1:${relay.port}/readyz`)).json() as Promise<any>;
    await until('it says so', async () => /^database: /.test((await ready()).detail as string));
    await room.service.sql(`alter database ${name} reset default_transaction_read_only`);
    await room.enqueue('read-only', '1');
    await room.drained();
    assert.equal((await room.jobs('read-only')).length, 2);
  });

  it('no transaction is open in the application’s database while a call to Stint hangs', async (t) => {
    let asked = 0;
    const mute = createServer((request) => void request.resume().once('end', () => (asked += 1))).listen(
      0,
      '127.0.0.1',
    );
    t.after(() => {
      mute.closeAllConnections();
      mute.close();
    });
    await once(mute, 'listening');
    await enqueueMany('hanging', 100);
    await room.relay({ url: `http://127.0.0.1:${(mute.address() as AddressInfo).port}` });
    await until('it has asked', () => asked > 0);
    await pause(1_200);
    const backends = await room.sql(
      `select state, xact_start from pg_stat_activity where application_name like 'stint relay%' and datname = current_database()`,
    );
    assert.ok(backends.length >= 2);
    for (const backend of backends) assert.deepEqual(backend, { state: 'idle', xact_start: null });
    const locks = await room.sql(
      `select l.mode from pg_locks l join pg_stat_activity a using (pid) where a.application_name like 'stint relay%' and a.datname = current_database()`,
    );
    assert.deepEqual(locks, []);
  });

  it('on SIGTERM the batch under way is settled, claims are given back, and the process ends with 0', async () => {
    await enqueueMany('stopped', 3_000);
    const running = await relayProcess(room.service.base);
    await until('it is amid its work', async () => (await room.jobs('stopped')).length > 0);
    const { code, took } = await endWith(running, 'SIGTERM');
    assert.equal(code, 0, running.output());
    assert.ok(took < 5_000, `took ${took} ms`);
    const [left] = await room.sql(
      'select count(*)::int as rows, count(claimed_by)::int as claimed from stint_outbox.message',
    );
    assert.equal(left.claimed, 0);
    assert.equal((await room.jobs('stopped')).length + (left.rows as number), 3_000);
  });

  it('a table that its owner changes under a running relay is read as it is now', async () => {
    await room.relay();
    await room.enqueue('changed', '{"a":1}');
    await room.drained();
    await room.sql(
      'alter table stint_outbox.message alter column payload type json using payload::json, add column note text',
    );
    await room.sql(`insert into stint_outbox.message (queue, payload) values ('changed', '{"b":2}')`);
    await room.drained();
    await room.sql('alter table stint_outbox.message alter column payload type text, drop column note');
    assert.deepEqual(
      (await room.jobs('changed')).map(({ payload }) => payload),
      [{ a: 1 }, { b: 2 }],
    );
  });
});
