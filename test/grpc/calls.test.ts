import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client as Channel, credentials, Metadata, status } from '@grpc/grpc-js';
import { errorOf } from '../helpers/grpc-client.js';
import { codeOf, type GrpcClient, grpcClient } from '../helpers/grpc.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

describe('calls over gRPC', () => {
  let service: TestService;
  let rest: Client;
  let grpc: GrpcClient;

  before(async () => {
    service = await startTestService();
    rest = await service.tenant();
    grpc = grpcClient(service.grpc, rest.key);
  });

  after(async () => {
    grpc.close();
    await service.stop();
  });

  const lease = (queue: string, more: object = {}, options = {}) =>
    grpc.call('Jobs', 'Lease', { queue, ...more }, options);
  const leased = async (queue: string) =>
    (
      await service.sql(
        'select count(*)::int as n from stint.lease l join stint.queue q on q.id = l.queue_id where q.name = $1',
        [queue],
      )
    )[0].n;

  it('a job enqueued over REST is leased over gRPC and acked over REST, and the other way round', async () => {
    const made = await rest.post('/v1/queues/both/jobs', { payload: { to: 'ada' }, kind: 'mail', headers: { a: 'b' } });
    const { jobs } = await lease('both');
    assert.equal(jobs[0].id, made.body.id);
    assert.equal(jobs[0].payload.toString(), '{"to":"ada"}');
    assert.deepEqual([jobs[0].kind, jobs[0].headers, jobs[0].attempt], ['mail', { a: 'b' }, 1]);
    const acked = await rest.post(`/v1/jobs/${jobs[0].id}/ack`, { leaseToken: jobs[0].leaseToken });
    assert.equal(acked.body.outcome, 'OK');

    const { id, state } = await grpc.call('Jobs', 'Enqueue', { queue: 'both', payload: Buffer.from('[1]') });
    assert.equal(state, 'JOB_STATE_READY');
    const { body } = await rest.post('/v1/queues/both/lease', {});
    assert.deepEqual([body.jobs[0].id, body.jobs[0].payload], [id, [1]]);
    const { results } = await grpc.call('Jobs', 'Ack', {
      items: [{ leaseToken: body.jobs[0].leaseToken, result: Buffer.from('"done"') }],
    });
    assert.equal(results[0].outcome, 'SETTLE_OUTCOME_OK');
    const job = await grpc.call('Jobs', 'GetJob', { id });
    assert.deepEqual([job.state, job.result.toString()], ['JOB_STATE_COMPLETED', '"done"']);
  });

  it('C04, C05, C09: payload bytes come back as they were sent, over either transport', async () => {
    const texts = [
      '9007199254740993',
      '1e400',
      '1.0',
      'null',
      '""',
      '"\\u0000"',
      '"\\ud800"',
      '{"a":1,"a":2}',
      ' [1, 2 ] ',
      '[]',
    ];
    for (const text of texts) {
      const { id } = await grpc.call('Jobs', 'Enqueue', { queue: 'bytes', payload: Buffer.from(text) });
      const { jobs } = await lease('bytes');
      assert.equal(jobs[0].payload.toString(), text);
      const shown = await rest.get(`/v1/jobs/${id}`);
      assert.ok(shown.text.includes(`"payload":${text}`), shown.text);
      await grpc.call('Jobs', 'Ack', { items: [{ leaseToken: jobs[0].leaseToken }] });
    }
    const bytes = Buffer.from([0, 255, 254, 10]);
    const { id } = await grpc.call('Jobs', 'Enqueue', { queue: 'bytes', payload: bytes, contentType: 'image/png' });
    assert.equal((await rest.get(`/v1/jobs/${id}`)).body.payloadBase64, bytes.toString('base64'));
    assert.deepEqual((await lease('bytes')).jobs[0].payload, bytes);
  });

  it('a job without a payload is told from one with an empty one', async () => {
    await grpc.call('Jobs', 'Enqueue', { queue: 'absent' });
    await grpc.call('Jobs', 'Enqueue', { queue: 'absent', payload: Buffer.alloc(0), contentType: 'text/plain' });
    const { jobs } = await lease('absent', { maxJobs: 2 });
    assert.deepEqual(
      jobs.map((job: any) => job.payload ?? 'absent'),
      ['absent', Buffer.alloc(0)],
    );
  });

  it('a refusal has the status, the code, and the fields at fault with their limits', async () => {
    const error = await grpc
      .call('Jobs', 'Enqueue', { queue: 'q', maxAttempts: 0 })
      .catch((caught: unknown) => caught as any);
    assert.equal(error.code, status.INVALID_ARGUMENT);
    assert.match(error.details, /maxAttempts must be/);
    const { code, fields } = errorOf(error);
    assert.equal(code, 'INVALID_ARGUMENT');
    assert.equal(fields[0]!.field, 'maxAttempts');
    for (const [message, field] of [
      [{ queue: 'q', payload: Buffer.from('{') }, 'payload'],
      [{ queue: 'q', payload: Buffer.from([0xff]) }, 'payload'],
      [{ queue: 'q', payload: Buffer.alloc(300_000, 'a'), contentType: 'text/plain' }, 'payload'],
      [{ queue: 'q', delay: { seconds: 1, nanos: 5 } }, 'delay'],
      [{ queue: 'q', delay: { seconds: -1 } }, 'delay'],
      [{ queue: 'q', runAt: { seconds: 1, nanos: -1 } }, 'runAt'],
      [{ queue: 'q', retry: {} }, 'retry'],
      [{ queue: 'q', retry: { fixed: {} } }, 'retry.delays'],
      [{ queue: '' }, 'queue'],
      [{ queue: 'no good' }, 'queue'],
    ] as const) {
      const refused = await grpc.call('Jobs', 'Enqueue', message).catch((caught: unknown) => caught as any);
      assert.equal(refused.code, status.INVALID_ARGUMENT, JSON.stringify(message));
      assert.equal(errorOf(refused).fields[0]?.field, field, refused.details);
    }
  });

  it('a fault in one job of a batch refuses the batch and names the job; one in an item of a settle fails that alone', async () => {
    const jobs = [{ queue: 'q' }, { queue: 'q', payload: Buffer.from('nope') }];
    const refused = await grpc.call('Jobs', 'EnqueueBatch', { jobs }).catch((caught: unknown) => caught as any);
    assert.equal(errorOf(refused).fields[0]!.field, 'jobs[1].payload');
    await grpc.call('Jobs', 'Enqueue', { queue: 'lenient' });
    const { leaseToken } = (await lease('lenient')).jobs[0];
    const { results } = await grpc.call('Jobs', 'Heartbeat', {
      items: [{ leaseToken: 'x' }, { leaseToken, progress: Buffer.from('{') }, { leaseToken }],
    });
    assert.deepEqual(
      results.map((result: any) => [result.outcome, result.error?.field]),
      [
        ['SETTLE_OUTCOME_INVALID', 'leaseToken'],
        ['SETTLE_OUTCOME_INVALID', 'progress'],
        ['SETTLE_OUTCOME_OK', undefined],
      ],
    );
  });

  it('an empty list of ids deletes nothing', async () => {
    await rest.put('/v1/queues/dead', { maxAttempts: 1 });
    await grpc.call('Jobs', 'Enqueue', { queue: 'dead' });
    const { leaseToken } = (await lease('dead')).jobs[0];
    const error = { message: 'no', type: 'smtp', detail: Buffer.from('not json') };
    await grpc.call('Jobs', 'Nack', { items: [{ leaseToken, error }] });
    await assert.rejects(
      grpc.call('Queues', 'DeleteDead', { queue: 'dead', ids: {} }),
      (caught) => codeOf(caught) === 'INVALID_ARGUMENT',
    );
    const { jobs } = await grpc.call('Jobs', 'ListJobs', { queue: 'dead', state: 'JOB_STATE_DEAD' });
    assert.deepEqual(
      [jobs[0].lastError.message, jobs[0].lastError.type, jobs[0].lastError.detail.toString()],
      ['no', 'smtp', '"not json"'],
    );
    assert.equal((await grpc.call('Queues', 'DeleteDead', { queue: 'dead' })).deleted, 1);
  });

  it('calls without a key, with a wrong one and without the scope are refused as over REST', async () => {
    for (const [key, code] of [
      ['', 'UNAUTHENTICATED'],
      ['stint_nobody', 'UNAUTHENTICATED'],
      [(await service.tenant({ scopes: ['read'] })).key, 'PERMISSION_DENIED'],
      [service.adminKey, 'PERMISSION_DENIED'],
    ] as const) {
      const other = grpcClient(service.grpc, key);
      await assert.rejects(other.call('Jobs', 'Enqueue', { queue: 'q' }), (error) => codeOf(error) === code);
      other.close();
    }
  });

  /** A call of bytes as they are: its status, or null. */
  async function callBytes(method: string, bytes: Buffer): Promise<any> {
    const channel = new Channel(service.grpc, credentials.createInsecure());
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${rest.key}`);
    const asTheyAre = (message: Buffer): Buffer => message;
    const ended = await new Promise((resolve) => {
      channel.makeUnaryRequest(`/stint.v1.Jobs/${method}`, asTheyAre, asTheyAre, bytes, metadata, resolve);
    });
    channel.close();
    return ended;
  }

  it('a message that is none, and one that is too large, get a clear status, and the next call goes through', async () => {
    assert.equal((await callBytes('Enqueue', Buffer.from([0xff, 0xff, 0xff]))).code, status.INVALID_ARGUMENT);
    assert.equal((await callBytes('Enqueue', Buffer.alloc(9 * 1024 * 1024))).code, status.RESOURCE_EXHAUSTED);
    await grpc.call('Jobs', 'Enqueue', { queue: 'after' });
  });

  it('a string that is not UTF-8 is refused and named, whatever its field is called; the replacement character is one like others', async () => {
    const [queue, kind, header, invalid] = [field(1, 'q'), 2, 13, Buffer.from([0x61, 0xff, 0x62])];
    const enqueue = (...fields: Buffer[]) => callBytes('Enqueue', Buffer.concat([queue, ...fields]));
    const pair = (name: string | Buffer, value: string | Buffer) =>
      field(header, Buffer.concat([field(1, name), field(2, value)]));
    for (const [fields, name] of [
      [[field(kind, invalid)], 'kind'],
      [[field(kind, '\ufffd'), pair('h', invalid)], 'headers.h'],
      [[pair('error', invalid)], 'headers.error'],
      [[pair(Buffer.concat([Buffer.from('error'), invalid]), 'x')], 'headers'],
    ] as const) {
      const refused = await enqueue(...fields);
      assert.equal(refused.code, status.INVALID_ARGUMENT, name);
      assert.deepEqual(errorOf(refused).fields, [{ field: name, message: 'must be valid UTF-8' }]);
    }
    assert.equal(await enqueue(field(kind, '\ufffd'), pair('error', '\ufffd')), null);
  });

  it('a nack is never refused for its error: what is not UTF-8 there is made so', async () => {
    await grpc.call('Jobs', 'Enqueue', { queue: 'not-utf8' });
    const { id, leaseToken } = (await lease('not-utf8')).jobs[0];
    const [token, error, invalid] = [1, 2, Buffer.from([0x61, 0xff, 0x62])];
    const why = Buffer.concat([field(1, invalid), field(2, '\ufffd')]);
    const nack = (given: string | Buffer) => field(1, Buffer.concat([field(token, given), field(error, why)]));
    const refused = await callBytes('Nack', nack(invalid));
    assert.deepEqual(errorOf(refused).fields[0]!.field, 'items[0].leaseToken');
    assert.equal(await callBytes('Nack', nack(leaseToken)), null);
    const { lastError } = (await rest.get(`/v1/jobs/${id}`)).body;
    assert.deepEqual([lastError.message, lastError.type], ['a\ufffdb', '\ufffd']);
  });

  it('C10: a payload of 2 MiB is leased by a client with the default limit of 4 MiB, one a reply', async () => {
    await rest.put('/v1/queues/large', { maxPayloadBytes: 2 * 1024 * 1024 });
    const payload = Buffer.alloc(2 * 1024 * 1024, 'x');
    for (let n = 0; n < 3; n += 1)
      await grpc.call('Jobs', 'Enqueue', { queue: 'large', payload, contentType: 'text/plain' });
    for (let n = 0; n < 3; n += 1) {
      const { jobs } = await lease('large', { maxJobs: 10 });
      assert.equal(jobs.length, 1);
      assert.equal(jobs[0].payload.length, payload.length);
    }
  });

  it('C17, C82: a lease whose caller cancels, or whose deadline passes, leaves no waiter, and takes no job along; it is not counted as one that went well', async () => {
    await rest.put('/v1/queues/gone', {});
    let cancel = (): void => undefined;
    const cancelled = lease('gone', { wait: { seconds: 60 } }, { onCall: (stop: () => void) => (cancel = stop) });
    const late = lease('gone', { wait: { seconds: 60 } }, { deadlineMs: 300 });
    const ended = Promise.allSettled([cancelled, late]);
    await until('both wait', async () => (await waiting()) === 2);
    cancel();
    const [first, second] = (await ended) as PromiseRejectedResult[];
    assert.equal(first!.reason.code, status.CANCELLED);
    assert.equal(second!.reason.code, status.DEADLINE_EXCEEDED);
    await until('nobody waits', async () => (await waiting()) === 0, 1_000);
    const { text } = await rest.get('/metrics');
    assert.match(text, /^stint_operations_total\{operation="Lease",transport="grpc",code="CLIENT_CLOSED"\} 2$/m);
    await grpc.call('Jobs', 'Enqueue', { queue: 'gone' });
    assert.equal((await lease('gone')).jobs.length, 1);
    assert.equal(await leased('gone'), 1);
  });

  async function waiting(): Promise<number> {
    const { text } = await rest.get('/metrics');
    return Number(/^stint_parked_leases (\d+)$/m.exec(text)?.[1]);
  }
});

/** A field of a message that has a length: of strings, bytes and messages. */
function field(number: number, value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}
