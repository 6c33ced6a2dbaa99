import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { type Collector, type ReceivedSpan, startCollector } from '../helpers/collector.js';
import { grpcClient } from '../helpers/grpc.js';
import { clientFor, startTestService, type TestService, until } from '../helpers/service.js';

/** A span of a producer, as its tracer would send it. */
function producer(flags = '01'): { readonly traceId: string; readonly spanId: string; readonly traceparent: string } {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, traceparent: `00-${traceId}-${spanId}-${flags}` };
}

describe('spans', () => {
  let collector: Collector;
  let service: TestService;
  let tenant: { readonly key: string; readonly name: string };

  before(async () => {
    collector = await startCollector();
    service = await startTestService({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-collector-key=abc',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    });
    tenant = { key: (await service.tenant({ name: 'acme' })).key, name: 'acme' };
  });

  after(async () => {
    await service.stop();
    await collector.close();
  });

  /** A call over REST. */
  async function post(path: string, body: object, headers: Record<string, string> = {}): Promise<any> {
    const answer = await clientFor(service.base, tenant.key).request('POST', path, body, { headers });
    return answer.body;
  }

  const spanOf = (what: string, isIt: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> =>
    until(what, () => collector.spans.find(isIt)).then((span) => span!);
  const byJob = (verb: string, id: string): Promise<ReceivedSpan> =>
    spanOf(
      `${verb} of ${id}`,
      ({ attributes }) => attributes['messaging.operation.name'] === verb && attributes['messaging.message.id'] === id,
    );

  interface Wire {
    enqueue(queue: string, job: object, trace?: string, state?: string): Promise<string>;
    lease(queue: string, trace?: string): Promise<any>;
    ack(leaseToken: string): Promise<void>;
  }

  const rest: Wire = {
    enqueue: async (queue, job, traceparent, tracestate) => {
      const headers = { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) };
      return (await post(`/v1/queues/${queue}/jobs`, job, headers)).id;
    },
    lease: async (queue, traceparent) =>
      (await post(`/v1/queues/${queue}/lease`, { wait: '5s' }, traceparent ? { traceparent } : {})).jobs[0],
    ack: async (leaseToken) => {
      assert.equal((await post('/v1/leases/ack', { items: [{ leaseToken }] })).results[0].outcome, 'OK');
    },
  };
  const call = async (method: string, message: object, more: Record<string, string> = {}): Promise<any> => {
    const client = grpcClient(service.grpc, tenant.key, more);
    try {
      return await client.call('Jobs', method, message);
    } finally {
      client.close();
    }
  };
  const grpc: Wire = {
    enqueue: async (queue, job, traceparent, tracestate) => {
      const more = { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) };
      return (await call('Enqueue', { queue, ...job }, more)).id;
    },
    lease: async (queue, traceparent) =>
      (await call('Lease', { queue, wait: { seconds: 5 } }, traceparent ? { traceparent } : {})).jobs[0],
    ack: async (leaseToken) => {
      assert.equal((await call('Ack', { items: [{ leaseToken }] })).results[0].outcome, 'SETTLE_OUTCOME_OK');
    },
  };

  for (const [transport, wire] of Object.entries({ http: rest, grpc })) {
    it(`of an enqueue, its lease and its ack are told, each with its parent and the lease with a link: ${transport}`, async () => {
      const queue = `mail-${transport}`;
      const [app, worker] = [producer(), producer()];
      const id = await wire.enqueue(queue, { kind: 'welcome' }, app.traceparent, 'vendor=1');
      const job = await wire.lease(queue, worker.traceparent);
      await wire.ack(job.leaseToken);

      assert.deepEqual(job.headers, { traceparent: app.traceparent, tracestate: 'vendor=1' });
      const enqueue = await byJob('enqueue', id);
      assert.deepEqual([enqueue.name, enqueue.kind, enqueue.status], [`enqueue ${queue}`, 'SERVER', 'UNSET']);
      assert.deepEqual([enqueue.traceId, enqueue.parentSpanId], [app.traceId, app.spanId]);
      assert.equal(enqueue.traceState, 'vendor=1');
      const { 'stint.request_id': requestId, ...attributes } = enqueue.attributes;
      assert.match(String(requestId), /^\S{10,}$/);
      assert.deepEqual(attributes, {
        'messaging.system': 'stint',
        'messaging.operation.name': 'enqueue',
        'messaging.operation.type': 'send',
        'messaging.destination.name': queue,
        'messaging.message.id': id,
        'stint.tenant': 'acme',
        'stint.transport': transport,
      });

      const lease = await byJob('lease', id);
      assert.deepEqual([lease.name, lease.kind], [`lease ${queue}`, 'SERVER']);
      assert.deepEqual([lease.traceId, lease.parentSpanId], [worker.traceId, worker.spanId]);
      assert.deepEqual(lease.links, [{ traceId: app.traceId, spanId: app.spanId }]);
      assert.equal(lease.attributes['messaging.operation.type'], 'receive');
      assert.equal(lease.attributes['messaging.batch.message_count'], 1);

      const ack = await byJob('ack', id);
      assert.deepEqual([ack.name, ack.parentSpanId, ack.links], [`ack ${queue}`, '', []]);
      assert.equal(ack.attributes['messaging.operation.type'], 'settle');
      assert.equal(ack.attributes['stint.settles.missed'], 0);
    });

    it(`without a trace of the caller’s the job carries the span of its enqueue: ${transport}`, async () => {
      for (const nothing of ['', 'nonsense', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`]) {
        const queue = `own-${transport}`;
        const id = await wire.enqueue(queue, {}, nothing);
        const { headers } = await wire.lease(queue);
        const enqueue = await byJob('enqueue', id);
        assert.deepEqual([enqueue.kind, enqueue.parentSpanId], ['PRODUCER', '']);
        assert.deepEqual(headers, { traceparent: `00-${enqueue.traceId}-${enqueue.spanId}-01` });
        const { traceId, spanId } = enqueue;
        assert.deepEqual((await byJob('lease', id)).links, [{ traceId, spanId }]);
      }
    });

    it(`what a job says of its trace itself is left alone: ${transport}`, async () => {
      const queue = `named-${transport}`;
      const [app, named] = [producer(), producer()];
      const given = { traceparent: named.traceparent, other: 'x' };
      const id = await wire.enqueue(queue, { headers: given }, app.traceparent, 'vendor=1');
      assert.deepEqual((await wire.lease(queue)).headers, given);
      const enqueue = await byJob('enqueue', id);
      assert.deepEqual(
        [enqueue.traceId, enqueue.links],
        [app.traceId, [{ traceId: named.traceId, spanId: named.spanId }]],
      );
    });
  }

  it('a caller’s trace that is not recorded is carried on, and not recorded here', async () => {
    const [silent, app] = [producer('00'), producer()];
    await rest.enqueue('silent', {}, silent.traceparent);
    assert.equal((await rest.lease('silent')).headers.traceparent, silent.traceparent);
    await byJob('enqueue', await rest.enqueue('silent', {}, app.traceparent));
    assert.deepEqual(
      collector.spans.filter(({ traceId }) => traceId === silent.traceId),
      [],
    );
  });

  it('a tracestate of 8 KiB is not carried on, and a job with no room for a trace is stored without', async () => {
    const app = producer();
    await rest.enqueue('bounded', {}, app.traceparent, `a=${'x'.repeat(8_000)}`);
    assert.deepEqual((await rest.lease('bounded')).headers, { traceparent: app.traceparent });
    const full = Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`h${n}`, 'x']));
    for (const headers of [full, { h: 'x'.repeat(8_191) }]) {
      await rest.enqueue('bounded', { headers }, app.traceparent, 'vendor=1');
      assert.deepEqual((await rest.lease('bounded')).headers, headers);
    }
  });

  it('a batch is one span, and the lease of its jobs links to each producer once', async () => {
    const [app, other] = [producer(), producer()];
    const jobs = Array.from({ length: 5 }, (_, n) => ({
      queue: 'batch',
      ...(n > 2 && { headers: { traceparent: other.traceparent } }),
    }));
    await post('/v1/jobs/batch', { jobs }, { traceparent: app.traceparent });
    const { jobs: leased } = await post('/v1/queues/batch/lease', { maxJobs: 10 });
    assert.deepEqual(
      leased.map(({ headers }: any) => headers.traceparent),
      [...Array<string>(3).fill(app.traceparent), ...Array<string>(2).fill(other.traceparent)],
    );
    const lease = await spanOf('the lease', ({ name }) => name === 'lease batch');
    assert.equal(lease.attributes['messaging.batch.message_count'], 5);
    assert.deepEqual(lease.links.map(({ spanId }) => spanId).toSorted(), [app.spanId, other.spanId].toSorted());
    const enqueue = await spanOf('the enqueue', ({ name }) => name === 'enqueue batch');
    assert.equal(enqueue.attributes['messaging.batch.message_count'], 5);
    assert.equal(enqueue.attributes['messaging.message.id'], undefined);
  });

  it('links are bounded', async () => {
    const jobs = Array.from({ length: 120 }, () => ({
      queue: 'many',
      headers: { traceparent: producer().traceparent },
    }));
    await post('/v1/jobs/batch', { jobs });
    assert.equal((await post('/v1/queues/many/lease', { maxJobs: 200 })).jobs.length, 120);
    assert.equal((await spanOf('the lease', ({ name }) => name === 'lease many')).links.length, 100);
  });

  it('a lease that waits in vain leaves no span, one that waits and gets a job tells how long', async () => {
    const waits = producer();
    const before = collector.spans.length;
    assert.deepEqual(
      (await post('/v1/queues/idle/lease', { wait: '1s' }, { traceparent: waits.traceparent })).jobs,
      [],
    );
    const waiting = post('/v1/queues/idle/lease', { wait: '20s' }, { traceparent: waits.traceparent });
    await until('it waits', async () =>
      /^stint_parked_leases 1$/m.test((await clientFor(service.base, '').get('/metrics')).text),
    );
    const id = await rest.enqueue('idle', {});
    assert.equal((await waiting).jobs[0].id, id);
    const lease = await byJob('lease', id);
    const idle = Number(lease.attributes['stint.lease.idle_seconds']);
    assert.ok(idle > 0 && idle * 1_000 <= lease.milliseconds + 2, `${idle} s of ${lease.milliseconds} ms`);
    const leases = collector.spans.slice(before).filter(({ traceId }) => traceId === waits.traceId);
    assert.deepEqual(leases, [lease]);
  });

  it('a lease that carries settles tells their number, without the time that it then waits', async () => {
    const id = await rest.enqueue('loop', {});
    const { leaseToken } = await rest.lease('loop');
    const loop = producer();
    const body = { wait: '1s', settle: { acks: [{ leaseToken }] } };
    const { settled } = await post('/v1/queues/loop/lease', body, { traceparent: loop.traceparent });
    assert.equal(settled.acks[0].outcome, 'OK', id);
    const lease = await spanOf('the lease', ({ traceId }) => traceId === loop.traceId);
    assert.deepEqual([lease.attributes['stint.settles'], lease.attributes['stint.settles.missed']], [1, 0]);
    assert.equal(lease.attributes['messaging.batch.message_count'], 0);
    assert.ok(lease.milliseconds < 900, `${lease.milliseconds} ms`);
  });

  it('settles of each verb have their span, and settles that came to nothing are counted', async () => {
    await post('/v1/jobs/batch', { jobs: Array.from({ length: 3 }, () => ({ queue: 'verbs' })) });
    const { jobs } = await post('/v1/queues/verbs/lease', { maxJobs: 3 });
    const [a, b, c] = jobs.map(({ leaseToken }: any) => ({ leaseToken }));
    await post('/v1/leases/nack', { items: [a] });
    await post('/v1/leases/release', { items: [b] });
    await post('/v1/leases/settle', { acks: [c, a], heartbeats: [{ leaseToken: 'x' }] });
    assert.equal((await byJob('nack', jobs[0].id)).name, 'nack verbs');
    assert.equal((await byJob('release', jobs[1].id)).name, 'release verbs');
    const settle = await spanOf('the settle', ({ attributes }) => attributes['messaging.operation.name'] === 'settle');
    assert.deepEqual([settle.name, settle.attributes['stint.settles.missed']], ['settle', 2]);
  });

  it('a refusal has its code, and is an error of the service only when it is the service’s', async () => {
    const [wrong, lost, broken] = [producer(), producer(), producer()];
    await post('/v1/queues/mail/jobs', { priority: 'high' }, { traceparent: wrong.traceparent });
    const refused = await spanOf('the refusal', ({ traceId }) => traceId === wrong.traceId);
    assert.deepEqual([refused.attributes['error.type'], refused.status], ['INVALID_ARGUMENT', 'UNSET']);
    const id = await rest.enqueue('lost', {});
    const { leaseToken } = await rest.lease('lost');
    await rest.ack(leaseToken);
    await post(`/v1/jobs/${id}/nack`, { leaseToken }, { traceparent: lost.traceparent });
    const late = await spanOf('the nack', ({ traceId }) => traceId === lost.traceId);
    assert.deepEqual([late.attributes['error.type'], late.status], ['LEASE_LOST', 'UNSET']);
    assert.equal(late.attributes['stint.settles.missed'], 1);
    await service.sql('alter table stint.job rename column headers to broken');
    await post('/v1/queues/mail/jobs', {}, { traceparent: broken.traceparent });
    await service.sql('alter table stint.job rename column broken to headers');
    const failed = await spanOf('the failure', ({ traceId }) => traceId === broken.traceId);
    assert.deepEqual([failed.attributes['error.type'], failed.status], ['INTERNAL', 'ERROR']);
    assert.equal(failed.attributes['stint.tenant'], 'acme');
  });

  it('a worker stream has a span for each message of jobs and each settle, with a link to the trace it was opened in', async () => {
    const [app, worker] = [producer(), producer()];
    const id = await rest.enqueue('stream', {}, app.traceparent);
    const client = grpcClient(service.grpc, tenant.key, { traceparent: worker.traceparent });
    const open = client.work();
    const { received, stream } = open;
    open.send({ hello: { queues: [{ name: 'stream' }], credits: 5 } });
    const jobs = await until('the job', () => received.find((message) => message.jobs)?.jobs.jobs);
    open.send({ settle: { id: 1, items: { acks: [{ leaseToken: jobs[0].leaseToken }] } } });
    await until('its settle', () => received.find((message) => message.settled));
    const [lease, settle] = [await byJob('lease', id), await byJob('settle', id)];
    const opened = { traceId: worker.traceId, spanId: worker.spanId };
    assert.deepEqual([lease.parentSpanId, lease.links], ['', [opened, { traceId: app.traceId, spanId: app.spanId }]]);
    assert.deepEqual([settle.name, settle.parentSpanId, settle.links], ['settle stream', '', [opened]]);
    stream.cancel();
    client.close();
  });

  it('every span has the resource, and exports have their headers', () => {
    for (const { resource } of collector.spans) {
      assert.equal(resource['service.name'], 'stint');
      assert.equal(resource['deployment.environment.name'], 'test');
      assert.match(String(resource['service.version']), /^\d+\.\d+\.\d+/);
      assert.match(String(resource['service.instance.id']), /^[0-9a-f-]{36}$/);
    }
    for (const { path, headers } of collector.requests) {
      assert.deepEqual([path, headers['x-collector-key'], headers['content-encoding']], ['/v1/traces', 'abc', 'gzip']);
    }
  });
});

describe('spans of which a share is recorded', () => {
  it('leave jobs of callers without a trace alone', async (t) => {
    const collector = await startCollector();
    t.after(() => collector.close());
    const service = await startTestService({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/elsewhere`,
      OTEL_SERVICE_NAME: 'queue',
      OTEL_TRACES_SAMPLER: 'parentbased_always_off',
    });
    const client = await service.tenant();
    const app = producer();
    const { base, key } = client;
    const over = clientFor(base, key);
    await over.post('/v1/queues/off/jobs', {});
    await over.post('/v1/queues/off/jobs', {}, { headers: { traceparent: app.traceparent } });
    const { body } = await over.post('/v1/queues/off/lease', { maxJobs: 2 });
    assert.deepEqual(
      body.jobs.map((job: any) => job.headers),
      [{}, { traceparent: app.traceparent }],
    );
    await service.stop();
    assert.deepEqual(
      collector.spans.map(({ name, traceId }) => [name, traceId]),
      [['enqueue off', app.traceId]],
    );
    assert.equal(collector.spans[0]!.resource['service.name'], 'queue');
    assert.deepEqual(
      collector.requests.map(({ path }) => path),
      ['/elsewhere'],
      'the rest is sent at the stop',
    );
  });
});

describe('a service that exports no spans', () => {
  it('hands the trace of a request on to its jobs all the same, over both transports', async (t) => {
    const service = await startTestService();
    t.after(() => service.stop());
    const { key } = await service.tenant();
    const rest = clientFor(service.base, key);
    const [app, other] = [producer(), producer('00')];
    const headers = { traceparent: app.traceparent, tracestate: 'vendor=1' };
    await rest.post('/v1/queues/plain/jobs', {}, { headers });
    await rest.post('/v1/jobs/batch', { jobs: [{ queue: 'plain', headers: { a: 'b' } }] }, { headers });
    await rest.post('/v1/queues/plain/jobs', {}, { headers: { traceparent: 'nonsense', tracestate: 'vendor=1' } });
    const client = grpcClient(service.grpc, key, { traceparent: other.traceparent });
    await client.call('Jobs', 'Enqueue', { queue: 'plain' });
    client.close();
    const { body } = await rest.post('/v1/queues/plain/lease', { maxJobs: 10 });
    assert.deepEqual(
      body.jobs.map((job: any) => job.headers),
      [headers, { a: 'b', ...headers }, {}, { traceparent: other.traceparent }],
    );
  });
});
