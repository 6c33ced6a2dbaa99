import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { createLog } from '../../src/observability/log.js';
import { installOutbox } from '../../src/relay/install.js';
import { readOutcome } from '../../src/relay/outcome.js';
import { Pace } from '../../src/relay/pace.js';
import { type RunningRelay, startRelay } from '../../src/relay/run.js';
import { createEmptyDatabase, query, type TestDatabase } from '../helpers/postgres.js';
import { until } from '../helpers/service.js';

interface StubAnswer {
  readonly status: number;
  readonly code?: string;
  readonly retryAfter?: string;
}

const TAKEN: StubAnswer = { status: 201 };

describe('the relay beside a Stint that answers as told', () => {
  let database: TestDatabase;
  let server: Server;
  let relay: RunningRelay;
  let answer: (payloads: readonly unknown[]) => StubAnswer = () => TAKEN;
  /** Of each call that held jobs: when it came and what it held. */
  const calls: { at: number; payloads: unknown[] }[] = [];

  before(async () => {
    database = await createEmptyDatabase();
    await installOutbox(database.url, 'stint_outbox', createLog('silent'));
    server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .once('end', () => {
          const { jobs } = JSON.parse(Buffer.concat(chunks).toString()) as { jobs: { payload: unknown }[] };
          const payloads = jobs.map(({ payload }) => payload);
          if (payloads.length > 0) calls.push({ at: performance.now(), payloads });
          const { status, code, retryAfter } =
            payloads.length > 0 ? answer(payloads) : { ...TAKEN, status: 400, code: 'INVALID_ARGUMENT' };
          response.writeHead(status, {
            'content-type': code === undefined ? 'application/json' : 'application/problem+json; charset=utf-8',
            ...(retryAfter !== undefined && { 'retry-after': retryAfter }),
          });
          response.end(
            JSON.stringify(
              code === undefined ? { jobs: jobs.map((_, index) => ({ id: `job-${index}` })) } : { code, detail: 'so' },
            ),
          );
        });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
  });

  afterEach(async () => {
    await relay.stop();
    await query(database.url, 'truncate stint_outbox.message');
    calls.length = 0;
    answer = () => TAKEN;
  });

  after(async () => {
    server.closeAllConnections();
    server.close();
    await database.drop();
  });

  async function start(): Promise<void> {
    relay = await startRelay(
      {
        databaseUrl: database.url,
        schema: 'stint_outbox',
        url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
        key: 'k',
        keyFile: undefined,
        batch: 100,
        pollSeconds: 1,
        host: '127.0.0.1',
        port: 0,
      },
      createLog('silent'),
    );
  }

  const enqueue = (from: number, to: number) =>
    query(database.url, `select stint_outbox.enqueue('q', n::text) from generate_series($1::int, $2::int) n`, [
      from,
      to,
    ]);
  const rows = () =>
    query(
      database.url,
      'select payload, attempts, parked_reason as why, claimed_by from stint_outbox.message order by id',
    );
  const shipped = () => calls.filter(({ payloads }) => answer(payloads) === TAKEN).flatMap(({ payloads }) => payloads);

  it('a row for which it fails is found by halving, holds up none, and is parked when it has failed ten times', async () => {
    const boom = { status: 500, code: 'INTERNAL' };
    answer = (payloads) => (payloads.includes(42) ? boom : TAKEN);
    await enqueue(1, 100);
    await start();
    await until('the others are shipped', async () => (await rows()).length === 1);
    assert.deepEqual(
      (await rows()).map(({ payload, why, attempts }) => ({ payload, why, attempts })),
      [{ payload: '42', why: null, attempts: 1 }],
    );
    assert.ok(calls.length < 40, `${calls.length} calls`);
    assert.equal(new Set(shipped()).size, 99);
    await query(database.url, 'update stint_outbox.message set attempts = 9, claimed_until = clock_timestamp()');
    await until('it is parked', async () => (await rows())[0]!['why'] === 'INTERNAL: so');
  });

  it('when it fails for everything nothing is parked, and it is not asked ever faster', async () => {
    answer = () => ({ status: 500, code: 'INTERNAL' });
    await enqueue(1, 100);
    await start();
    await until('it has seen that', async () => {
      const ready = await (await fetch(`http://127.0.0.1:${relay.port}/readyz`)).text();
      return ready.includes('stint: INTERNAL: so');
    });
    await until('it tries again', () => calls.length > 19);
    const last = calls.slice(-3).map(({ at }) => at);
    assert.ok(last[2]! - last[0]! > 300, 'it pauses');
    assert.ok((await rows()).every(({ why }) => why === null));
    answer = () => TAKEN;
    await query(database.url, 'update stint_outbox.message set claimed_until = null');
    await until('all are shipped', async () => (await rows()).length === 0, 40_000);
  });

  for (const refusal of [
    { status: 429, code: 'RATE_LIMITED' },
    { status: 503, code: 'UNAVAILABLE' },
  ]) {
    it(`${refusal.status}: the next call comes no earlier than Retry-After says, and sends all the same`, async () => {
      answer = () => (calls.length === 1 ? { ...refusal, retryAfter: '2' } : TAKEN);
      await enqueue(1, 10);
      await start();
      await until('all are shipped', async () => (await rows()).length === 0);
      assert.ok(calls[1]!.at - calls[0]!.at >= 1_990, `${calls[1]!.at - calls[0]!.at} ms`);
      assert.deepEqual(new Set(calls.slice(1).flatMap(({ payloads }) => payloads)).size, 10);
    });
  }

  it('a proxy that takes smaller requests only gets smaller ones', async () => {
    const small = { status: 413 };
    answer = (payloads) => (payloads.length > 10 ? small : TAKEN);
    await enqueue(1, 100);
    await start();
    await until('all are shipped', async () => (await rows()).length === 0);
    assert.equal(new Set(shipped()).size, 100);
  });
});

describe('what an answer says of jobs', () => {
  const problem = new Headers({ 'content-type': 'application/problem+json; charset=utf-8' });
  const read = (status: number, body: object, headers = problem, count = 3) =>
    readOutcome({ status, headers }, JSON.stringify(body), count);

  it('names the job at fault, and its fields as if it stood alone', () => {
    const errors = [
      { field: 'jobs[1].delay', message: 'excludes runAt' },
      { field: 'jobs[1].runAt', message: 'excludes delay' },
    ];
    const refused = {
      kind: 'refused',
      index: 1,
      reason: 'INVALID_ARGUMENT: delay excludes runAt; runAt excludes delay',
    };
    assert.deepEqual(read(400, { code: 'INVALID_ARGUMENT', detail: 'x', errors }), refused);
  });

  it('a job that was not sent is not at fault', () => {
    const errors = [{ field: 'jobs[3].delay', message: 'is wrong' }];
    assert.equal(read(400, { code: 'INVALID_ARGUMENT', detail: 'x', errors }).kind, 'unplaced');
  });

  it('without a job named, a credential or a path that is refused blames none', () => {
    for (const [status, code] of [
      [401, 'UNAUTHENTICATED'],
      [403, 'PERMISSION_DENIED'],
      [404, 'NOT_FOUND'],
      [405, 'METHOD_NOT_ALLOWED'],
      [408, 'REQUEST_TIMEOUT'],
      [415, 'UNSUPPORTED_MEDIA_TYPE'],
      [418, 'SOMETHING_NEW'],
    ] as const) {
      assert.equal(read(status, { code, detail: 'x' }).kind, 'away', code);
    }
  });

  it('success counts only with an answer for each job', () => {
    const json = new Headers({ 'content-type': 'application/json' });
    const job = { id: 'a', deduplicated: true };
    assert.deepEqual(read(200, { jobs: [job, job, { id: 'b' }] }, json), { kind: 'accepted', deduplicated: 2 });
    for (const jobs of [[job], [job, job, job, job], [job, job, {}], [job, job, null], undefined]) {
      assert.equal(read(201, { jobs }, json).kind, 'away');
    }
  });

  it('takes Retry-After in seconds and as a date', () => {
    const after = (value: string) => {
      const headers = new Headers(problem);
      headers.set('retry-after', value);
      const outcome = read(503, { code: 'UNAVAILABLE', detail: 'x' }, headers);
      return outcome.kind === 'away' ? outcome.retryAfter : undefined;
    };
    assert.equal(after('7'), 7_000);
    assert.ok(Math.abs(after(new Date(Date.now() + 60_000).toUTCString())! - 60_000) < 2_000);
    assert.equal(after(new Date(0).toUTCString()), 0);
    assert.equal(after('soon'), undefined);
  });
});

describe('the pace of a relay', () => {
  it('pauses grow to half a minute and no further, jitter included, and never below what was asked', () => {
    const pace = new Pace(100);
    const pauses = Array.from({ length: 50 }, () => pace.failed());
    assert.ok(pauses[0]! <= 250);
    assert.ok(pauses.every((pause) => pause <= 30_000));
    assert.ok(pauses.slice(10).every((pause) => pause >= 15_000));
    assert.equal(pace.failed(60_000), 60_000);
    assert.equal(pace.failed(1e9), 300_000);
    pace.recovered();
    assert.ok(pace.failed() <= 250);
  });

  it('sends one row after a failure and twice as many after each success, up to the batch', () => {
    const pace = new Pace(100);
    pace.failed();
    const sizes = Array.from({ length: 9 }, () => {
      const { rows } = pace;
      pace.accepted([]);
      return rows;
    });
    assert.deepEqual(sizes, [1, 2, 4, 8, 16, 32, 64, 100, 100]);
  });

  it('leaves a full queue alone for longer each time, until it has taken something', () => {
    const pace = new Pace(100);
    pace.isFull('a', 1_000);
    const first = pace.untilNotFull!;
    for (let times = 0; times < 20; times += 1) pace.isFull('a', 1_000);
    assert.deepEqual(pace.fullQueues, ['a']);
    assert.ok(first <= 1_000 && pace.untilNotFull! > 29_000 && pace.untilNotFull! <= 30_000);
    pace.accepted(['a']);
    assert.deepEqual([pace.fullQueues, pace.untilNotFull], [[], undefined]);
  });
});
