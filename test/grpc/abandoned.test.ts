import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type GrpcClient, grpcClient } from '../helpers/grpc.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

const ROUND = 500;
const ROUNDS = 20;
const MOST_GROWTH_BYTES = 24 * 1024 * 1024;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

describe('ten thousand leases whose callers go', () => {
  let service: TestService;
  let rest: Client;
  let grpc: GrpcClient;
  let relay: net.Server;
  const links = new Set<net.Socket>();

  before(async () => {
    service = await startTestService();
    rest = await service.tenant();
    grpc = grpcClient(service.grpc, rest.key);
    const [host, port] = service.grpc.split(':');
    relay = net.createServer((client) => {
      const server = net.connect(Number(port), host);
      for (const side of [client, server]) side.on('error', () => undefined);
      client.pipe(server).pipe(client);
      links.add(client);
      client.on('close', () => {
        links.delete(client);
        server.destroy();
      });
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
  });

  after(async () => {
    grpc.close();
    for (const link of links) link.destroy();
    relay.close();
    await service.stop();
  });

  it('leave no lease, no waiter and no memory', { timeout: 120_000 }, async () => {
    await rest.put('/v1/queues/gone', { visibilityTimeout: '1s' });
    await round(false);
    const before = used();
    for (let n = 1; n < ROUNDS; n += 1) await round(n % 2 === 0);
    await until('the memory is back', () => used() - before < MOST_GROWTH_BYTES, 10_000);
    await until('every job is ready again', async () => (await counts()).leased === 0, 5_000);
  });

  /**
   * A third is cancelled, a third runs into its deadline, a third loses its socket. Jobs come when all are gone, and nobody has leased
   * them; or amid their going: then an answer may be on its way to a caller who no longer wants it, and its lease runs out.
   */
  async function round(amid: boolean): Promise<void> {
    // Of its own: whoever takes back a thousand calls at once is cut off, as by every server of HTTP/2.
    const own = grpcClient(service.grpc, rest.key);
    const through = grpcClient(`127.0.0.1:${(relay.address() as net.AddressInfo).port}`, rest.key);
    const cancels: (() => void)[] = [];
    const leases = Array.from({ length: ROUND }, (_, n) => {
      const message = { queue: 'gone', wait: { seconds: 60 } };
      if (n % 3 === 0) return own.call('Jobs', 'Lease', message, { onCall: (cancel) => cancels.push(cancel) });
      if (n % 3 === 1) return own.call('Jobs', 'Lease', message, { deadlineMs: 200 + (n % 100) });
      return through.call('Jobs', 'Lease', message);
    });
    const ended = Promise.allSettled(leases);
    await until('some wait', async () => (await waiting()) > ROUND / 3);
    const jobs = Array.from({ length: 5 }, () => ({ queue: 'gone' }));
    const enqueued = amid ? grpc.call('Jobs', 'EnqueueBatch', { jobs }) : undefined;
    for (const cancel of cancels) cancel();
    for (const link of links) link.destroy();
    const given = (await ended).flatMap((result) => (result.status === 'fulfilled' ? result.value.jobs : []));
    through.close();
    own.close();
    await enqueued;
    await until('nobody waits', async () => (await waiting()) === 0, 2_000);
    const items = given.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken }));
    if (items.length > 0) await grpc.call('Jobs', 'Ack', { items });
    if (amid) return;
    await until('what crossed is over', async () => (await counts()).leased === 0, 5_000);
    const { ready } = await counts();
    await grpc.call('Jobs', 'EnqueueBatch', { jobs });
    assert.deepEqual([(await counts()).ready, (await counts()).leased], [ready + 5, 0]);
  }

  async function counts(): Promise<{ readonly ready: number; readonly leased: number }> {
    return (await rest.get('/v1/queues/gone/stats')).body.counts;
  }

  async function waiting(): Promise<number> {
    const { text } = await rest.get('/metrics');
    return Number(/^stint_parked_leases (\d+)$/m.exec(text)?.[1]);
  }

  function used(): number {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  }
});
