import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Answer, type Client, startTestService, type TestService, until } from './helpers/service.js';

const POLLS = 1_000;
const QUEUES = 50;
const WINDOW_MS = 10_000;
const CALLS_A_SECOND = 5;

describe('a thousand parked long polls', () => {
  let service: TestService;
  let client: Client;
  let polls: Promise<Answer>[];

  before(async () => {
    service = await startTestService();
    client = await service.tenant();
    for (let n = 0; n < QUEUES; n += 1) await client.put(`/v1/queues/idle-${n}`, {});
    polls = Array.from({ length: POLLS }, (_, n) =>
      client.post(`/v1/queues/idle-${n % QUEUES}/lease`, { wait: '60s' }),
    );
    await until('all are parked', async () => (await busyConnections()) === 0 && (await callsByKind('claim')) > 0);
    // What the start and the parking have left behind is done with.
    await pause(2_000);
  });

  after(async () => {
    await service.stop();
    await Promise.allSettled(polls);
  });

  it(`cost at most ${CALLS_A_SECOND} database calls a second and hold no connection`, { timeout: 60_000 }, async () => {
    const began = performance.now();
    const before = await calls();
    let busiest = 0;
    while (performance.now() - began < WINDOW_MS) {
      busiest = Math.max(busiest, await heldConnections());
      await pause(250);
    }
    const made = difference(before, await calls());
    const seconds = (performance.now() - began) / 1_000;
    const total = Object.values(made).reduce((sum, n) => sum + n, 0);
    assert.ok(total / seconds <= CALLS_A_SECOND, `${(total / seconds).toFixed(2)} a second: ${JSON.stringify(made)}`);
    assert.ok(total > 0, 'the polling goes on');
    assert.equal(busiest, 0, 'connections that were held for longer than a statement');
  });

  it('are woken by one enqueue within a second, one of them', { timeout: 60_000 }, async () => {
    const began = performance.now();
    const [winner] = await Promise.all([
      Promise.race(polls),
      client.post('/v1/queues/idle-7/jobs', {}).then(({ status }) => assert.equal(status, 201)),
    ]);
    assert.ok(performance.now() - began < 1_000, `after ${performance.now() - began} ms`);
    assert.equal(winner.body.jobs.length, 1);
    assert.equal(winner.body.jobs[0].queue, 'idle-7');
  });

  async function callsByKind(kind: string): Promise<number> {
    return (await calls())[kind] ?? 0;
  }

  async function calls(): Promise<Record<string, number>> {
    const { text } = await client.get('/metrics');
    const found = [...text.matchAll(/^stint_database_calls_total\{kind="([^"]+)"\} (\S+)$/gm)];
    return Object.fromEntries(found.map(([, kind, value]) => [kind!, Number(value)]));
  }

  const OURS = `application_name like 'stint %' and datname = current_database()`;

  async function busyConnections(): Promise<number> {
    const rows = await service.sql(`select pid from pg_stat_activity where ${OURS} and state <> 'idle'`);
    return rows.length;
  }

  /** In a transaction for longer than any background statement takes. */
  async function heldConnections(): Promise<number> {
    const rows = await service.sql(
      `select pid from pg_stat_activity where ${OURS} and state <> 'idle'
      and (state like 'idle in transaction%' or clock_timestamp() - xact_start > interval '1 second')`,
    );
    return rows.length;
  }
});

function difference(before: Record<string, number>, after: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(after).map(([kind, value]) => [kind, value - (before[kind] ?? 0)]));
}
