import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { enqueue, lease, leased, leaseOne, putQueue, settleOk } from '../contract/jobs.js';

const ROUNDS = 20;
const MOST_MS = 1_000;
let service: TestService;
let other: TestService;
let client: Client;
let elsewhere: Client;

before(async () => {
  service = await startTestService();
  other = await service.another();
  client = await service.tenant();
  elsewhere = clientFor(other.base, client.key);
});
after(async () => {
  await other.stop();
  await service.stop();
});

interface Variant {
  /** Brings the queue to where its next job is not there yet. */
  readonly prepare?: (queue: string) => Promise<any>;
  /** Makes the job leasable; answers the instant from which it is, if that is later than the call's end. */
  readonly wake: (queue: string, prepared: any, from: Client) => Promise<unknown>;
}

const variants: Record<string, Variant> = {
  'an enqueue': { wake: (queue, _, from) => enqueue(from, queue) },
  'an enqueue with an idempotency key': {
    wake: (queue, _, from) => enqueue(from, queue, { idempotencyKey: 'k' }),
  },
  'a batch': {
    wake: (queue, _, from) => from.post('/v1/jobs/batch', { jobs: [{ queue: 'another' }, { queue }] }),
  },
  'a job that becomes due': {
    wake: async (queue, _, from) => {
      const sent = performance.now();
      await enqueue(from, queue, { delay: '300ms' });
      return sent + 300;
    },
  },
  'a nack without delay': {
    prepare: (queue) => leased(client, queue),
    wake: (_, job, from) => settleOk(from, 'nack', job, { delay: '0s' }),
  },
  'a nack with a delay': {
    prepare: (queue) => leased(client, queue),
    wake: async (_, job, from) => {
      await settleOk(from, 'nack', job, { delay: '200ms' });
      return performance.now() + 200;
    },
  },
  'a release': {
    prepare: (queue) => leased(client, queue),
    wake: (_, job, from) => settleOk(from, 'release', job),
  },
  'the end of a lease': {
    prepare: (queue) => leased(client, queue, {}, { visibilityTimeout: '1s' }),
    wake: (_, job) => Promise.resolve(performance.now() + Date.parse(job.leaseExpiresAt as string) - Date.now()),
  },
  'a resume': {
    prepare: async (queue) => {
      await enqueue(client, queue);
      await client.post(`/v1/queues/${queue}/pause`);
    },
    wake: (queue, _, from) => from.post(`/v1/queues/${queue}/resume`),
  },
  'a patch': {
    prepare: (queue) => enqueue(client, queue, { delay: '1h' }),
    wake: (_, id, from) => from.patch(`/v1/jobs/${id}`, { delay: '0s' }),
  },
  'a redrive': {
    prepare: async (queue) => settleOk(client, 'nack', await leased(client, queue), { final: true }),
    wake: (queue, _, from) => from.post(`/v1/queues/${queue}/dead/redrive`, {}),
  },
};

/** How long after the job was leasable a parked lease had it. */
async function pickUp({ prepare, wake }: Variant, { queue, from }: { queue: string; from: Client }): Promise<number> {
  const prepared = await prepare?.(queue);
  const waiting = lease(client, queue, { wait: '20s' }).then((jobs) => ({ jobs, at: performance.now() }));
  await pause(Math.random() * 60);
  const told = await wake(queue, prepared, from);
  const leasable = typeof told === 'number' ? told : performance.now();
  const { jobs, at } = await waiting;
  assert.equal(jobs.length, 1);
  return at - leasable;
}

describe('C18: whoever waits is woken', () => {
  for (const [name, variant] of Object.entries(variants)) {
    for (const place of ['this', 'another'] as const) {
      test(`C18: by ${name} on ${place} instance, within a second`, async () => {
        const from = place === 'this' ? client : elsewhere;
        const stem = `${name}-${place}`.replaceAll(' ', '-');
        const queues = Array.from({ length: ROUNDS }, (_, index) => `${stem}-${index}`);
        for (const queue of queues) await putQueue(client, queue);
        const times = await Promise.all(queues.map((queue) => pickUp(variant, { queue, from })));
        const worst = Math.max(...times);
        assert.ok(worst < MOST_MS, `picked up after ${times.map(Math.round).join(', ')} ms`);
      });
    }
  }

  test('C18: by the first job of a queue that did not exist, on either instance, within a second', async () => {
    for (const from of [client, elsewhere]) {
      for (let round = 0; round < 5; round += 1) {
        const queue = `new-${from === client ? 'a' : 'b'}-${round}`;
        const waiting = leaseOne(client, queue, { wait: '20s' });
        await pause(Math.random() * 60);
        const id = await enqueue(from, queue);
        const created = performance.now();
        assert.equal((await waiting).id, id);
        assert.ok(performance.now() - created < 1_200, `${performance.now() - created} ms`);
      }
    }
  });
});

test('C18: an enqueue at any offset around a poll that finds nothing is seen at once', async () => {
  for (let round = 0; round < 60; round += 1) {
    const waiting = leaseOne(client, 'offsets', { wait: '20s' });
    await pause(Math.random() * 8);
    const started = performance.now();
    await enqueue(round % 2 === 0 ? client : elsewhere, 'offsets');
    await settleOk(client, 'ack', await waiting);
    assert.ok(performance.now() - started < MOST_MS);
  }
});

test('C18: those who wait for nothing keep the database nearly idle', async () => {
  const calls = async (): Promise<number> => {
    const text = await (await fetch(`${service.base}/metrics`)).text();
    return [...text.matchAll(/^stint_database_calls_total\{[^}]*kind="claim"[^}]*\} (\d+)/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  };
  const waiting = Array.from({ length: 20 }, (_, index) => lease(client, `idle-${index}`, { wait: '2500ms' }));
  await pause(500);
  const before = await calls();
  assert.ok(before > 0);
  await pause(1_500);
  const made = (await calls()) - before;
  // One look a second for all of them, and one for the names that do not exist.
  assert.ok(made <= 8, `${made} calls in 1.5 s`);
  await Promise.all(waiting);
});

test('a job that is due is leasable within 100 ms', async () => {
  const late: number[] = [];
  for (let round = 0; round < 15; round += 1) {
    const parked = lease(client, 'punctual', { wait: '10s' });
    await enqueue(client, 'punctual', { delay: `${150 + round * 20}ms` });
    const [job] = await parked;
    // Service, database and this test share a machine, and so a clock.
    late.push(Date.now() - Date.parse(job.runAt));
    await settleOk(client, 'ack', job);
  }
  late.sort((a, b) => a - b);
  assert.ok(late[0]! >= 0, 'never before its time');
  assert.ok(late[7]! < 100, `half of them were later than ${late[7]} ms`);
});
