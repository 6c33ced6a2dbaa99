import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import pg from 'pg';
import { Outbox } from '../../src/relay/outbox.js';
import { otherPostgres } from '../helpers/postgres.js';
import { until } from '../helpers/service.js';
import { createRelayRoom, type RelayRoom } from './room.js';

const oldest = await otherPostgres();

for (const { name, server, skip } of [
  { name: 'the current PostgreSQL', server: undefined, skip: false },
  { name: 'PostgreSQL 15', server: oldest, skip: oldest === undefined && 'PostgreSQL 15 is not installed' },
]) {
  describe(`the relay with an outbox on ${name}`, { skip }, () => {
    let room: RelayRoom;

    before(async () => {
      room = await createRelayRoom(server);
    });

    afterEach(async () => {
      await room.stopRelays();
      await room.sql('truncate stint_outbox.message');
    });

    after(() => room.close());

    async function session(): Promise<pg.Client> {
      const client = new pg.Client({ connectionString: room.databaseUrl });
      await client.connect();
      return client;
    }

    /** Rows of the outbox that finished statements have fetched so far, in whatever way. */
    async function rowsRead(): Promise<number> {
      const [row] = await room.sql(
        `select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_user_tables where relname = 'message'`,
      );
      return row.rows as number;
    }

    it('makes one job of a committed row, and deletes the row', async () => {
      const key = await room.enqueue('one', '{"order":1}', { kind: 'paid', priority: 7, headers: { a: 'b' } });
      await room.relay();
      await room.drained();
      const [job, ...more] = await room.jobs('one');
      assert.deepEqual(more, []);
      const { kind, payload, priority, headers, idempotencyKey } = job;
      assert.deepEqual(
        { kind, payload, priority, headers, idempotencyKey },
        { kind: 'paid', payload: { order: 1 }, priority: 7, headers: { a: 'b' }, idempotencyKey: key },
      );
      assert.deepEqual(await room.sql('select from stint_outbox.message'), []);
    });

    it('makes none of a row that is rolled back', async () => {
      await room.relay();
      const client = await session();
      await client.query(`begin; select stint_outbox.enqueue('undone', '1'); rollback`);
      await client.query(`begin; select stint_outbox.enqueue('undone', '2'); commit`);
      await client.end();
      await until('the other row is shipped', async () => (await room.jobs('undone')).length > 0);
      assert.deepEqual(
        (await room.jobs('undone')).map(({ payload }) => payload),
        [2],
      );
    });

    it('C48: ships a row that was written first and committed last', async () => {
      await room.relay();
      const late = await session();
      await late.query(`begin; select stint_outbox.enqueue('late', '"late"')`);
      await room.enqueue('late', '"early"');
      await until('the later row is shipped', async () => (await room.jobs('late')).length === 1);
      await room.drained();
      await late.query('commit');
      await late.end();
      await until('the earlier row is shipped too', async () => (await room.jobs('late')).length === 2);
      assert.deepEqual(
        (await room.jobs('late')).map(({ payload }) => payload),
        ['early', 'late'],
      );
    });

    it('ships within a moment of the commit, woken by it', async () => {
      await room.relay({ pollSeconds: 300 });
      await room.enqueue('woken', '0');
      await until('it is awake and asleep again', async () => (await room.jobs('woken')).length === 1);
      const began = performance.now();
      await room.enqueue('woken', '1');
      await until('it is shipped', async () => (await room.jobs('woken')).length === 2, 3_000);
      assert.ok(performance.now() - began < 2_000);
    });

    it('keeps the order of calls within a transaction, and between transactions that follow one another', async () => {
      const client = await session();
      for (let transaction = 0; transaction < 30; transaction += 1) {
        await client.query('begin');
        for (let call = 0; call < 5; call += 1) {
          await client.query('select stint_outbox.enqueue($1, $2)', ['order', String(transaction * 5 + call)]);
        }
        await client.query('commit');
      }
      await client.end();
      await room.relay({ batch: 7 });
      await room.drained();
      const leased = await room.client.post('/v1/queues/order/lease', { maxJobs: 1000 });
      assert.deepEqual(
        leased.body.jobs.map(({ payload }: { payload: number }) => payload),
        Array.from({ length: 150 }, (_, number) => number),
      );
    });

    it('hands payloads over to the byte', async () => {
      const payloads = [
        '{"b":1,"a":2,"a":3}',
        '9007199254740993',
        '1.0',
        '1e400',
        '"\\u0000\\ud800"',
        '{"a" : [ 1,2 ] , "ü":"☃"}',
        'null',
      ];
      for (const payload of payloads) await room.enqueue('bytes', payload);
      await room.sql(`select stint_outbox.enqueue('bytes', '{"z":1, "a":2}'::json)`);
      await room.sql(`select stint_outbox.enqueue('bytes', '{"z":1, "a":2}'::jsonb)`);
      await room.relay();
      await room.drained();
      const leased = await room.client.post('/v1/queues/bytes/lease', { maxJobs: 100 });
      const sent = [...leased.text.matchAll(/"payload":(.*?),"(?:contentType|headers|priority)"/gs)].map(
        ([, text]) => text,
      );
      assert.deepEqual(sent, [...payloads, '{"z":1, "a":2}', '{"a": 2, "z": 1}']);
    });

    it('ships what is no JSON, and jobs without a payload', async () => {
      await room.sql(`select stint_outbox.enqueue('raw', $1::bytea)`, [Buffer.from([0, 255, 1])]);
      await room.sql(`select stint_outbox.enqueue('raw', 'plain, {not json', '{"contentType": "text/plain"}')`);
      await room.sql(`select stint_outbox.enqueue('raw', null)`);
      await room.relay();
      await room.drained();
      const leased = await room.client.post('/v1/queues/raw/lease', { maxJobs: 100 });
      assert.deepEqual(
        leased.body.jobs.map((job: any) => [job.contentType, job.payload, job.payloadBase64]),
        [
          ['application/octet-stream', undefined, 'AP8B'],
          ['text/plain', undefined, Buffer.from('plain, {not json').toString('base64')],
          ['application/json', undefined, undefined],
        ],
      );
    });

    it('reads as few rows to claim among 100,000 as among none, also where it began with none', async () => {
      const outbox = new Outbox({ url: room.databaseUrl, schema: 'stint_outbox', onLost: () => undefined });
      const claim = () => outbox.claim({ rows: 10, bytes: 1_000_000, time: 60_000, except: [] });
      for (let times = 0; times < 8; times += 1) assert.deepEqual(await claim(), []);
      await room.sql(
        `insert into stint_outbox.message (queue, payload) select 'many', '1' from generate_series(1, 100000)`,
      );
      const before = await rowsRead();
      for (let times = 0; times < 6; times += 1) assert.equal((await claim()).length, 10);
      // Connections tell what they have read when they end.
      await outbox.close();
      const read = await until('what was read is told', async () => {
        const rows = (await rowsRead()) - before;
        return rows >= 60 ? rows : undefined;
      });
      assert.ok(read! < 2_000, `${read} rows`);
    });

    it('counts a delay from the call, not from when it is shipped', async () => {
      await room.enqueue('delayed', '1', { delay: '1h' });
      await room.enqueue('delayed', '2', { delay: '10s' });
      await room.sql(`update stint_outbox.message set created_at = created_at - interval '30 minutes'`);
      await room.relay();
      await room.drained();
      const [later, now] = await room.jobs('delayed');
      assert.equal(now.state, 'ready');
      const ahead = (Date.parse(later.runAt as string) - Date.parse(later.enqueuedAt as string)) / 60_000;
      assert.ok(ahead > 29 && ahead <= 30, `${ahead} minutes`);
    });
  });
}
