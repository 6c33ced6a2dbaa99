import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type Proxy, startProxy } from '../helpers/proxy.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

describe('a wake-up connection that is half dead (C58)', () => {
  let service: TestService;
  let through: TestService;
  let proxy: Proxy;
  let producer: Client;
  let worker: Client;

  before(async () => {
    service = await startTestService();
    proxy = await startProxy(service.database.url);
    through = await service.another({ STINT_DATABASE_URL: proxy.url });
    producer = await service.tenant();
    worker = clientFor(through.base, producer.key);
  });

  after(async () => {
    await through.stop();
    await proxy.close();
    await service.stop();
  });

  const listening = (): object[] => [...proxy.links].filter(({ name }) => name === 'stint wakeups');

  /** Milliseconds from an enqueue on one instance to its delivery on the other. */
  async function pickUp(queue: string): Promise<number> {
    const parked = worker.post(`/v1/queues/${queue}/lease`, { wait: '20s' });
    await pause(150);
    const made = await producer.post(`/v1/queues/${queue}/jobs`, {});
    assert.equal(made.status, 201);
    const began = performance.now();
    assert.equal((await parked).body.jobs.length, 1);
    return performance.now() - began;
  }

  it(
    'is noticed within 15 s; until then jobs of other instances are found by polling, then at once again',
    { timeout: 60_000 },
    async () => {
      assert.ok((await pickUp('before')) < 700);
      const dead = new Set(listening());
      assert.equal(dead.size, 1);
      let refused = 0;
      proxy.rules.toClient = (_, link) => (dead.has(link) ? 'drop' : 'pass');
      proxy.rules.toServer = (_, link) => {
        if (dead.has(link)) return 'drop';
        // The first new connection fails too.
        if (link.name === 'stint wakeups' && refused === 0) {
          refused += 1;
          return 'cut';
        }
        return 'pass';
      };
      const began = performance.now();
      assert.ok((await pickUp('meanwhile')) < 2_000, 'found by polling');
      await until(
        'a new connection listens',
        async () => {
          const { text } = await worker.get('/metrics');
          return (
            refused === 1 &&
            listening().some((link) => !dead.has(link)) &&
            /^stint_notifications_healthy 1$/m.test(text)
          );
        },
        20_000,
      );
      assert.ok(performance.now() - began < 15_500, `noticed after ${performance.now() - began} ms`);
      proxy.rules.toServer = proxy.rules.toClient = undefined;
      const times = [await pickUp('after-1'), await pickUp('after-2'), await pickUp('after-3')];
      assert.ok(Math.min(...times) < 300, `heard at once: ${times.join(', ')}`);
    },
  );
});
