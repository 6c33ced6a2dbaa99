import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, constants } from 'node:http2';
import net from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { type GrpcClient, grpcClient, type WorkerStream } from '../helpers/grpc.js';
import { protos } from '../helpers/grpc-request.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

describe('the worker stream', () => {
  let service: TestService;
  let rest: Client;
  let grpc: GrpcClient;
  const streams: WorkerStream[] = [];

  before(async () => {
    service = await startTestService();
    rest = await service.tenant();
    grpc = grpcClient(service.grpc, rest.key);
  });

  afterEach(() => {
    for (const { stream } of streams.splice(0)) stream.cancel();
  });

  after(async () => {
    grpc.close();
    await service.stop();
  });

  function hello(queue: string, credits: number, more: object = {}): WorkerStream {
    const worker = grpc.work();
    streams.push(worker);
    worker.send({ hello: { queues: [{ name: queue }], credits, worker: 'w', ...more } });
    return worker;
  }

  const enqueue = async (queue: string, count: number) =>
    assert.equal(
      (await rest.post('/v1/jobs/batch', { jobs: Array.from({ length: count }, (_, n) => ({ queue, payload: n })) }))
        .status,
      201,
    );
  const jobsOf = ({ received }: WorkerStream): any[] => received.flatMap((message) => message.jobs?.jobs ?? []);
  const settledOf = ({ received }: WorkerStream): any[] =>
    received.flatMap((message) => (message.settled ? [message.settled] : []));
  const counts = async (queue: string) => (await rest.get(`/v1/queues/${queue}/stats`)).body.counts;
  const ack = (worker: WorkerStream, jobs: readonly any[], id = 1): void =>
    worker.send({ settle: { id, items: { acks: jobs.map(({ leaseToken }) => ({ leaseToken })) } } });

  it('sends jobs within its credits, and more as they are settled', async () => {
    await enqueue('window', 10);
    const worker = hello('window', 3);
    await until('three jobs', () => jobsOf(worker).length === 3);
    assert.equal((await counts('window')).leased, 3);
    ack(worker, jobsOf(worker).slice(0, 2), 7);
    await until('two more', () => jobsOf(worker).length === 5);
    assert.deepEqual(
      settledOf(worker).map(({ id, results }) => [id, results.acks.map((each: any) => each.outcome)]),
      [[7, ['SETTLE_OUTCOME_OK', 'SETTLE_OUTCOME_OK']]],
    );
    assert.deepEqual(await counts('window'), { scheduled: 0, ready: 5, leased: 3, dead: 0 });
  });

  it('sends what is enqueued later at once, and nothing while its credits are 0', async () => {
    const worker = hello('later', 5);
    await until('it waits', async () => (await waiting()) > 0);
    await enqueue('later', 1);
    await until('the job', () => jobsOf(worker).length === 1, 1_000);
    worker.send({ credits: { credits: 0 } });
    await until('it waits no more', async () => (await waiting()) === 0);
    await enqueue('later', 2);
    worker.send({ credits: { credits: 2 } });
    await until('one more', () => jobsOf(worker).length === 2);
    assert.equal((await counts('later')).leased, 2);
  });

  it('sends no more than its credits when they are lowered while it waits', async () => {
    const worker = hello('lowered', 100);
    await until('it waits', async () => (await waiting()) > 0);
    worker.send({ credits: { credits: 1 } });
    // Messages are taken in order: when this is answered the credits have been.
    ack(worker, [], 5);
    await until('the credits are taken', () => settledOf(worker).length === 1);
    await enqueue('lowered', 5);
    await until('one job', () => jobsOf(worker).length > 0);
    ack(worker, jobsOf(worker).slice(0, 1));
    await until('the next one', () => jobsOf(worker).length === 2);
    assert.ok(
      worker.received.every(({ jobs }) => (jobs?.jobs ?? []).length <= 1),
      'one at a time',
    );
  });

  it('nack, release and heartbeat are answered, and free what they end', async () => {
    await enqueue('verbs', 4);
    const worker = hello('verbs', 3, { visibilityTimeout: { seconds: 60 } });
    await until('three jobs', () => jobsOf(worker).length === 3);
    const [first, second, third] = jobsOf(worker);
    worker.send({
      settle: {
        id: 9,
        items: {
          heartbeats: [{ leaseToken: first.leaseToken, visibilityTimeout: { seconds: 90 } }],
          nacks: [{ leaseToken: second.leaseToken, delay: { seconds: 60 }, error: { message: 'no' } }],
          releases: [{ leaseToken: third.leaseToken, delay: { seconds: 60 } }],
        },
      },
    });
    await until('the answer', () => settledOf(worker).length === 1);
    const { id, results } = settledOf(worker)[0];
    assert.equal(id, 9);
    assert.ok(results.heartbeats[0].remaining.seconds >= 89, JSON.stringify(results.heartbeats[0]));
    assert.deepEqual(
      [results.nacks[0].outcome, results.releases[0].outcome],
      ['SETTLE_OUTCOME_OK', 'SETTLE_OUTCOME_OK'],
    );
    await until('the fourth job', () => jobsOf(worker).length === 4);
    assert.deepEqual(await counts('verbs'), { scheduled: 2, ready: 0, leased: 2, dead: 0 });
  });

  it('a lease that runs out frees its credit', async () => {
    await enqueue('expiry', 2);
    const worker = hello('expiry', 1, { visibilityTimeout: { seconds: 1 } });
    await until('the second job', () => jobsOf(worker).length >= 2, 10_000);
  });

  it('a worker that lets a lease run out in silence is given no other until it answers', async () => {
    const between = await pausableProxy(service.grpc);
    const throughProxy = grpcClient(between.target, rest.key);
    await enqueue('silent', 3);
    const worker = throughProxy.work();
    streams.push(worker);
    worker.send({ hello: { queues: [{ name: 'silent' }], credits: 1, visibilityTimeout: { seconds: 1 } } });
    await until('the first job', () => jobsOf(worker).length === 1);
    between.pause();
    await until('its lease has run out', async () => (await counts('silent')).ready === 3);
    const leased = await rest.post('/v1/queues/silent/lease', { maxJobs: 3, wait: '2s' });
    assert.deepEqual(leased.body.jobs.map(({ attempt }: { attempt: number }) => attempt).sort(), [1, 1, 2]);
    between.resume();
    await enqueue('silent', 1);
    await until('it works again', () => jobsOf(worker).length === 2);
    throughProxy.close();
    between.close();
  });

  it('what a broken stream was sent keeps its lease, and can be settled over REST', async () => {
    await enqueue('broken', 3);
    const worker = hello('broken', 2);
    await until('two jobs', () => jobsOf(worker).length === 2);
    worker.stream.cancel();
    await worker.ended;
    const [job] = jobsOf(worker);
    assert.equal((await rest.post(`/v1/jobs/${job.id}/ack`, { leaseToken: job.leaseToken })).body.outcome, 'OK');
    assert.deepEqual(await counts('broken'), { scheduled: 0, ready: 1, leased: 1, dead: 0 });
    await until('nobody waits', async () => (await waiting()) === 0, 1_000);
  });

  it('a slow reader is given one reply, and what it was not sent goes back when it breaks off', async () => {
    await rest.put('/v1/queues/slow', { maxPayloadBytes: 1024 * 1024 });
    for (let n = 0; n < 12; n += 1)
      await grpc.call('Jobs', 'Enqueue', {
        queue: 'slow',
        contentType: 'text/plain',
        payload: Buffer.alloc(1024 * 1024, 'x'),
      });
    // Beneath the library, which reads on for a caller who has paused.
    const session = connect(`http://${service.grpc}`);
    try {
      const worker = session.request({
        ':method': 'POST',
        ':path': '/stint.v1.Jobs/Work',
        'content-type': 'application/grpc',
        te: 'trailers',
        authorization: `Bearer ${rest.key}`,
      });
      worker.write(framed({ hello: { queues: [{ name: 'slow' }], credits: 100 } }));
      await until('a reply is leased', async () => (await counts('slow')).leased > 0);
      const { leased } = await counts('slow');
      assert.ok(leased <= 3, `${leased} of 12 are leased to a reader that reads nothing`);
      worker.close(constants.NGHTTP2_CANCEL);
      await until('they are ready again', async () => (await counts('slow')).ready === 12, 2_000);
    } finally {
      session.destroy();
    }
  });

  it('a worker that ends its side gets its answers, and the stream ends with OK', async () => {
    await enqueue('ends', 1);
    const worker = hello('ends', 5);
    await until('the job', () => jobsOf(worker).length === 1);
    ack(worker, jobsOf(worker));
    worker.stream.end();
    assert.equal((await worker.ended).code, status.OK);
    assert.equal(settledOf(worker).length, 1);
  });

  it('what is not a stream of work ends with a status that says why, and the next stream works', async () => {
    for (const [messages, code, said] of [
      [[{ credits: { credits: 1 } }], status.INVALID_ARGUMENT, /hello must be the first message/],
      [[{}], status.INVALID_ARGUMENT, /hello must be the first message/],
      [
        [{ hello: { queues: [{ name: 'q' }], credits: 1_001 } }],
        status.INVALID_ARGUMENT,
        /hello.credits must be an integer from 0 to 1000/,
      ],
      [[{ hello: { queues: [{ name: 'no good' }], credits: 1 } }], status.INVALID_ARGUMENT, /queues\[0\].name/],
      [[{ hello: { credits: 1 } }], status.INVALID_ARGUMENT, /queues is required/],
      [
        [{ hello: { queues: [{ name: 'q' }] } }, { hello: { queues: [{ name: 'q' }] } }],
        status.INVALID_ARGUMENT,
        /hello only once/,
      ],
      [[{ hello: { queues: [{ name: 'q' }] } }, {}], status.INVALID_ARGUMENT, /message must be given/],
    ] as const) {
      const worker = grpc.work();
      streams.push(worker);
      for (const message of messages) worker.send(message);
      const ended = await worker.ended;
      assert.equal(ended.code, code, ended.details);
      assert.match(ended.details, said);
    }
    const stranger = grpcClient(service.grpc, 'stint_nobody').work();
    streams.push(stranger);
    stranger.send({ hello: { queues: [{ name: 'q' }], credits: 1 } });
    assert.equal((await stranger.ended).code, status.UNAUTHENTICATED);
    await enqueue('fine', 1);
    const worker = hello('fine', 1);
    await until('the job', () => jobsOf(worker).length === 1);
  });

  it('C25, C26: a stop is told to the worker, which settles what it has and is answered; nothing is lost', async () => {
    const other = await service.another();
    const client = grpcClient(other.grpc, rest.key);
    await enqueue('stop', 5);
    const worker = client.work();
    streams.push(worker);
    worker.send({ hello: { queues: [{ name: 'stop' }], credits: 2 } });
    await until('two jobs', () => jobsOf(worker).length === 2);
    const stopped = other.stop();
    await until('the notice', () => worker.received.some((message) => message.drain != null));
    ack(worker, jobsOf(worker));
    await until('the answer', () => settledOf(worker).length === 1);
    worker.stream.end();
    assert.equal((await worker.ended).code, status.OK);
    await stopped;
    client.close();
    assert.deepEqual(await counts('stop'), { scheduled: 0, ready: 3, leased: 0, dead: 0 });
  });

  async function waiting(): Promise<number> {
    const { text } = await rest.get('/metrics');
    return Number(/^stint_parked_leases (\d+)$/m.exec(text)?.[1]);
  }
});

/** A way to the server that can be stopped for a while, without a byte lost. */
async function pausableProxy(target: string): Promise<{
  target: string;
  pause: () => void;
  resume: () => void;
  close: () => void;
}> {
  const [host, port] = target.split(':');
  const sockets: net.Socket[] = [];
  const server = net.createServer((client) => {
    const onward = net.connect(Number(port), host);
    sockets.push(client, onward);
    for (const [from, to] of [
      [client, onward],
      [onward, client],
    ] as const) {
      from.on('data', (chunk) => to.write(chunk));
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    target: `127.0.0.1:${(server.address() as net.AddressInfo).port}`,
    pause: () => sockets.forEach((socket) => socket.pause()),
    resume: () => sockets.forEach((socket) => socket.resume()),
    close: () => {
      sockets.forEach((socket) => socket.destroy());
      server.close();
    },
  };
}

/** A message as it goes over the wire (gRPC over HTTP/2, "Length-Prefixed-Message"). */
function framed(message: object): Buffer {
  const bytes = protos.message('stint.v1.WorkRequest').serialize(message);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}
