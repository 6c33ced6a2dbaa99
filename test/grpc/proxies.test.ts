import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { after, before, describe, it, type TestContext } from 'node:test';
import { status } from '@grpc/grpc-js';
import { type GrpcClient, grpcClient } from '../helpers/grpc.js';
import { startHttp2Proxy } from '../helpers/http2-proxy.js';
import { type ProxyRules, startProxy } from '../helpers/proxy.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

/** Between the 20 s after which the service pings and the time of the wait. */
const PATIENT_IDLE_MS = 23_000;
const WAIT_SECONDS = 26;
const SHORT_IDLE_MS = 2_000;
/** Longer than the minute that many proxies, and many servers, keep what idles. */
const POOLED_MS = 62_000;
const BURST = 200;

describe('gRPC through proxies', { concurrency: true }, () => {
  let service: TestService;
  let rest: Client;

  before(async () => {
    service = await startTestService();
    rest = await service.tenant();
  });

  after(() => service.stop());

  const counts = async (queue: string) => (await rest.get(`/v1/queues/${queue}/stats`)).body.counts;
  const lease = (grpc: GrpcClient, queue: string, seconds: number) =>
    grpc.call('Jobs', 'Lease', { queue, wait: { seconds } });

  it('C72: pings of the service keep a call and a stream alive that idle for longer than a proxy allows', async (t) => {
    const proxy = await throughTcp(t);
    const cuts = cutIdle(proxy.rules, PATIENT_IDLE_MS);
    const [caller, worker] = [clientOf(t, proxy.target), clientOf(t, proxy.target)];
    const work = worker.work();
    work.send({ hello: { queues: [{ name: 'streamed' }], credits: 1 } });
    const { jobs } = await lease(caller, 'idle', WAIT_SECONDS);
    assert.deepEqual(jobs, []);
    await rest.post('/v1/queues/streamed/jobs', {});
    await until('the job', () => work.received.length === 1, 1_000);
    assert.equal(cuts.count, 0);
  });

  it('C72: a proxy that cuts what idles strands no lease: the caller gets UNAVAILABLE, and its next call goes through', async (t) => {
    const proxy = await throughTcp(t);
    const cuts = cutIdle(proxy.rules, SHORT_IDLE_MS);
    const grpc = clientOf(t, proxy.target);
    for (let round = 1; round <= 3; round += 1) {
      await assert.rejects(lease(grpc, 'cut', 30), (error: any) => error.code === status.UNAVAILABLE);
      assert.ok(cuts.count >= round);
      await rest.post('/v1/queues/cut/jobs', {});
      const { jobs } = await lease(grpc, 'cut', 30);
      assert.equal(jobs.length, 1);
      await grpc.call('Jobs', 'Ack', { items: [{ leaseToken: jobs[0].leaseToken }] });
      assert.deepEqual(await counts('cut'), { scheduled: 0, ready: 0, leased: 0, dead: 0 });
    }
  });

  it('C71: connections that a proxy has kept idle for more than a minute take a burst, and no call fails', async (t) => {
    const target = await throughHttp2(t);
    const clients = Array.from({ length: 4 }, () => clientOf(t, target));
    const burst = () =>
      Promise.all(
        Array.from({ length: BURST }, (_, n) =>
          clients[n % clients.length]!.call('Jobs', 'Enqueue', { queue: 'burst' }),
        ),
      );
    await burst();
    await pause(POOLED_MS);
    await burst();
    assert.equal((await counts('burst')).ready, 2 * BURST);
  });

  it('C72: a worker behind an HTTP/2 proxy works, and when it goes its lease is waited for no longer', async (t) => {
    const target = await throughHttp2(t);
    const grpc = clientOf(t, target);
    const work = grpc.work();
    work.send({ hello: { queues: [{ name: 'behind' }], credits: 1 } });
    await rest.post('/v1/queues/behind/jobs', {});
    const [{ leaseToken }] = await until('the job', () => work.received[0]?.jobs.jobs);
    work.send({ settle: { id: 1, items: { acks: [{ leaseToken }] } } });
    await until('it is settled', () => work.received[1]?.settled.results.acks[0].outcome === 'SETTLE_OUTCOME_OK');
    work.stream.cancel();
    assert.equal((await work.ended).code, status.CANCELLED);
    await rest.post('/v1/queues/behind/jobs', {});
    await until('nobody has the job', async () => (await counts('behind')).ready === 1);
    assert.equal((await lease(grpc, 'behind', 0)).jobs.length, 1);
  });

  async function throughTcp(t: TestContext): Promise<{ readonly target: string; readonly rules: ProxyRules }> {
    const proxy = await startProxy(`http://${service.grpc}`);
    t.after(() => proxy.close());
    return { target: new URL(proxy.url).host, rules: proxy.rules };
  }

  async function throughHttp2(t: TestContext): Promise<string> {
    const proxy = await startHttp2Proxy(service.grpc);
    t.after(() => proxy.close());
    return proxy.target;
  }

  function clientOf(t: TestContext, target: string): GrpcClient {
    const grpc = grpcClient(target, rest.key);
    t.after(() => grpc.close());
    return grpc;
  }
});

/** Has the proxy cut connections over which nothing has gone for so long, and counts them. */
function cutIdle(rules: ProxyRules, milliseconds: number): { readonly count: number } {
  const cuts = { count: 0 };
  const timers = new WeakMap<object, NodeJS.Timeout>();
  rules.toServer = rules.toClient = (_chunk, link) => {
    clearTimeout(timers.get(link));
    const cut = (): void => {
      cuts.count += 1;
      link.cut();
    };
    timers.set(link, setTimeout(cut, milliseconds).unref());
    return 'pass';
  };
  return cuts;
}
