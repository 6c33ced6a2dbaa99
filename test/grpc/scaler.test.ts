import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { codeOf } from '../helpers/grpc.js';
import { type ActivityStream, type ScalerClient, scalerClient, type TriggerMetadata } from '../helpers/scaler.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { recordStatements } from '../helpers/statements.js';

/* What KEDA sees: a client of its contract that knows nothing of ours, and brings its credential among the trigger's metadata. */

let service: TestService;
let rest: Client;
let keda: ScalerClient;
const streams: ActivityStream[] = [];

before(async () => {
  service = await startTestService();
  rest = await service.tenant();
  keda = scalerClient(service.grpc);
});

afterEach(() => {
  for (const stream of streams.splice(0)) stream.cancel();
});

after(async () => {
  keda.close();
  await service.stop();
});

const trigger = (queue: string, more: TriggerMetadata = {}): TriggerMetadata => ({ apiKey: rest.key, queue, ...more });

async function enqueue(queue: string, fields: object = {}, client = rest): Promise<string> {
  const { status: code, body, text } = await client.post(`/v1/queues/${queue}/jobs`, fields);
  assert.equal(code, 201, text);
  return body.id;
}

async function lease(queue: string, maxJobs = 1): Promise<{ leaseToken: string }[]> {
  const { body } = await rest.post(`/v1/queues/${queue}/lease`, { maxJobs, visibilityTimeout: '600s' });
  assert.equal(body.jobs.length, maxJobs);
  return body.jobs;
}

async function ack(jobs: readonly { leaseToken: string }[]): Promise<void> {
  const items = jobs.map(({ leaseToken }) => ({ leaseToken }));
  assert.equal((await rest.post('/v1/leases/ack', { items })).status, 200);
}

/** An answer may be a second old. */
async function value(expected: number, metadata: TriggerMetadata): Promise<void> {
  await until(`the value is ${expected}`, async () => (await keda.getMetrics(metadata)).metricValueFloat === expected);
}

const active = (expected: boolean, metadata: TriggerMetadata): Promise<unknown> =>
  until(`active is ${expected}`, async () => (await keda.isActive(metadata)) === expected, 3_000);

function watch(metadata: TriggerMetadata, client = keda): ActivityStream {
  const stream = client.stream(metadata);
  streams.push(stream);
  return stream;
}

const said = (stream: ActivityStream, expected: readonly boolean[], milliseconds?: number): Promise<unknown> =>
  until(`it has said ${expected.join()}`, () => stream.received.join() === expected.join(), milliseconds);

async function refused(call: Promise<unknown>, code: string, says?: RegExp): Promise<void> {
  await assert.rejects(call, (error: Error & { details: string }) => {
    assert.equal(codeOf(error), code);
    if (says !== undefined) assert.match(error.details, says);
    return true;
  });
}

describe('the external scaler counts', () => {
  it('nothing, without an error, in a queue that does not exist or is empty', async () => {
    await rest.put('/v1/queues/empty', {});
    for (const queue of ['unknown', 'empty', 'unknown,empty']) {
      for (const metric of ['backlog', 'oldestAge']) {
        assert.equal(await keda.isActive(trigger(queue, { metric })), false);
        assert.deepEqual((await keda.getMetrics(trigger(queue, { metric }))).metricValueFloat, 0);
      }
    }
    assert.equal((await rest.get('/v1/queues/unknown')).status, 404, 'looking makes no queue');
  });

  it('what is ready and what is leased, until it is settled: no worker is taken from its job', async () => {
    for (let n = 0; n < 3; n += 1) await enqueue('busy');
    await active(true, trigger('busy'));
    await value(3, trigger('busy'));
    const jobs = await lease('busy', 3);
    await value(3, trigger('busy'));
    await ack(jobs.slice(0, 2));
    await value(1, trigger('busy'));
    await active(true, trigger('busy'));
    await ack(jobs.slice(2));
    await value(0, trigger('busy'));
    await active(false, trigger('busy'));
  });

  it('a scheduled job from the instant it is due, promoted or not, and none before', async () => {
    const sleeping = await startTestService({ STINT_BACKGROUND: 'off' });
    const owner = await sleeping.tenant();
    const client = scalerClient(sleeping.grpc);
    const metadata = { apiKey: owner.key, queue: 'later' };
    await enqueue('later', { delay: '60s' }, owner);
    assert.equal(await client.isActive(metadata), false);
    await sleeping.sql(`update stint.scheduled set due_at = now() - interval '20 seconds'`);
    await until('it counts', () => client.isActive(metadata), 2_000);
    assert.equal((await client.getMetrics(metadata)).metricValue, 1);
    const { metricValueFloat: age } = await client.getMetrics({ ...metadata, metric: 'oldestAge' });
    assert.ok(age >= 20 && age < 30, `${age}`);
    assert.equal((await sleeping.sql('select from stint.scheduled')).length, 1, 'nobody has promoted it');
    client.close();
    await sleeping.stop();
  });

  it('of a paused queue what is leased: nobody can lease the rest', async () => {
    await enqueue('paused');
    await enqueue('paused');
    const jobs = await lease('paused');
    await rest.post('/v1/queues/paused/pause');
    await value(1, trigger('paused'));
    await active(true, trigger('paused'));
    await ack(jobs);
    await value(0, trigger('paused'));
    await active(false, trigger('paused'));
    assert.equal((await keda.getMetrics(trigger('paused', { metric: 'oldestAge' }))).metricValueFloat, 0);
    await rest.post('/v1/queues/paused/resume');
    await value(1, trigger('paused'));
  });

  it('nothing that is purged, while its rows are still being deleted', async () => {
    for (let n = 0; n < 3; n += 1) await enqueue('purged');
    await service.sql(`update stint.queue set cut = (select max(pos) from stint.ready) where name = 'purged'`);
    await enqueue('purged', { priority: 5 });
    await value(1, trigger('purged'));
    assert.ok((await keda.getMetrics(trigger('purged', { metric: 'oldestAge' }))).metricValueFloat < 5);
  });

  it('several queues together, and of their ages the highest', async () => {
    await enqueue('one');
    await enqueue('two');
    await enqueue('two', { priority: 9 });
    await value(3, trigger(' one , two,nothing-here'));
    await service.sql(
      `update stint.ready set ready_at = now() - interval '90 seconds'
       where rank = 0 and queue_id = (select id from stint.queue where name = 'two')`,
    );
    const { metricName, metricValue, metricValueFloat } = await keda.getMetrics(
      trigger('one,two', { metric: 'oldestAge' }),
    );
    assert.equal(metricName, 'stint-oldest-age');
    assert.ok(metricValueFloat >= 90 && metricValueFloat < 100, `${metricValueFloat}`);
    assert.equal(metricValue, Math.ceil(metricValueFloat));
  });

  it('work as such only beyond the threshold, unless a job is leased', async () => {
    const metadata = trigger('little', { activationThreshold: '2' });
    for (let n = 0; n < 2; n += 1) await enqueue('little');
    await value(2, metadata);
    assert.equal(await keda.isActive(metadata), false);
    await enqueue('little');
    await active(true, metadata);
    const jobs = await lease('little', 3);
    await ack(jobs.slice(0, 2));
    await value(1, metadata);
    assert.equal(await keda.isActive(metadata), true);
    const aged = trigger('young', { metric: 'oldestAge', activationThreshold: '30' });
    await enqueue('young');
    assert.equal(await keda.isActive(aged), false);
    await service.sql(
      `update stint.ready set ready_at = now() - interval '31 seconds'
       where queue_id = (select id from stint.queue where name = 'young')`,
    );
    await active(true, aged);
  });
});

describe('the external scaler measures', () => {
  it('jobs unless told otherwise, with targets of its own and those that it is given', async () => {
    for (const [more, metricName, target] of [
      [{}, 'stint-backlog', 10],
      [{ metric: 'backlog', targetPerReplica: '2.5' }, 'stint-backlog', 2.5],
      [{ metric: 'oldestAge' }, 'stint-oldest-age', 30],
      [{ metric: 'oldestAge', targetPerReplica: '0.25' }, 'stint-oldest-age', 0.25],
    ] as const) {
      assert.deepEqual(await keda.getMetricSpec(trigger('q', more)), {
        metricName,
        targetSize: Math.ceil(target),
        targetSizeFloat: target,
      });
      assert.equal((await keda.getMetrics(trigger('q', more), metricName)).metricName, metricName);
    }
  });

  it('nothing under the name of another metric', async () => {
    const metadata = trigger('q', { metric: 'oldestAge' });
    await refused(keda.getMetrics(metadata, 'stint-backlog'), 'INVALID_ARGUMENT', /^metricName must be stint-oldest/);
  });

  for (const [what, more, says] of [
    ['no queue', { queue: '' }, /^scalerMetadata\.queue\[0\] must match/],
    ['a name that is none', { queue: 'a,no good' }, /^scalerMetadata\.queue\[1\] must match/],
    ['a queue twice', { queue: 'a,a' }, /^scalerMetadata\.queue must not have the same item twice/],
    ['101 queues', { queue: Array.from({ length: 101 }, (_, n) => `q${n}`).join(',') }, /queue must have at most 100/],
    ['another metric', { metric: 'depth' }, /^scalerMetadata\.metric must be one of backlog, oldestAge/],
    ['a target of 0', { targetPerReplica: '0' }, /^scalerMetadata\.targetPerReplica must be more than 0/],
    ['a target in words', { targetPerReplica: 'ten' }, /^scalerMetadata\.targetPerReplica must be a number/],
    ['an empty target', { targetPerReplica: ' ' }, /^scalerMetadata\.targetPerReplica must be a number/],
    ['a threshold below 0', { activationThreshold: '-1' }, /^scalerMetadata\.activationThreshold must be at least 0/],
    ['an endless threshold', { activationThreshold: 'Infinity' }, /activationThreshold must be a number/],
    ['a slip of the pen', { targetPerReplicas: '5' }, /^scalerMetadata\.targetPerReplicas is not a known field/],
    ['a name of every object', { constructor: '5' }, /^scalerMetadata\.constructor is not a known field/],
  ] as const) {
    it(`refuses ${what}, and names the field, in every call`, async () => {
      const metadata = trigger('q', more);
      for (const call of [keda.isActive(metadata), keda.getMetricSpec(metadata), keda.getMetrics(metadata)]) {
        await refused(call, 'INVALID_ARGUMENT', says);
      }
      const { code, details } = await watch(metadata).ended;
      assert.equal(code, status.INVALID_ARGUMENT);
      assert.match(details, says);
    });
  }

  it('refuses a trigger without a queue', async () => {
    await refused(keda.isActive({ apiKey: rest.key }), 'INVALID_ARGUMENT', /^scalerMetadata\.queue is required/);
  });

  it("takes what comes out of variables, and passes over KEDA's own keys", async () => {
    await enqueue('by-variable');
    const metadata = {
      apiKeyFromEnv: `${rest.key}\n`,
      queueFromEnv: 'by-variable',
      enableTLS: 'false',
      unsafeSsl: 'false',
    };
    await active(true, metadata);
    assert.equal(
      (await keda.getMetrics({ ...metadata, queue: 'nothing-here' })).metricValueFloat,
      0,
      'the plain one wins',
    );
  });
});

describe('the external scaler lets in', () => {
  it('a key among the metadata, or in the authorization of the call, which comes first', async () => {
    await enqueue('mine');
    await active(true, trigger('mine'));
    assert.equal(await keda.isActive({ queue: 'mine' }, `Bearer ${rest.key}`), true);
    assert.equal(await keda.isActive({ queue: 'mine', apiKey: 'stint_nobody' }, `Bearer ${rest.key}`), true);
  });

  it('nobody without a credential, or with one that nobody made', async () => {
    for (const credential of [{}, { apiKey: '' }, { apiKey: 'stint_nobody' }] as TriggerMetadata[]) {
      const metadata = { queue: 'q', ...credential };
      for (const call of [keda.isActive(metadata), keda.getMetricSpec(metadata), keda.getMetrics(metadata)]) {
        await refused(call, 'UNAUTHENTICATED');
      }
      assert.equal((await watch(metadata).ended).code, status.UNAUTHENTICATED);
    }
  });

  it('keys of the scopes work, read and manage, and no others', async () => {
    for (const [scope, may] of [
      ['work', true],
      ['read', true],
      ['manage', true],
      ['enqueue', false],
      ['tick', false],
    ] as const) {
      const { key } = await service.tenant({ scopes: [scope] });
      const metadata = { apiKey: key, queue: 'q' };
      const calls = () => [keda.isActive(metadata), keda.getMetricSpec(metadata), keda.getMetrics(metadata)];
      const stream = watch(metadata);
      if (may) {
        await Promise.all(calls());
        await said(stream, [false]);
      } else {
        for (const call of calls()) await refused(call, 'PERMISSION_DENIED');
        assert.equal((await stream.ended).code, status.PERMISSION_DENIED);
      }
    }
    await refused(keda.isActive({ apiKey: service.adminKey, queue: 'q' }), 'PERMISSION_DENIED', /belongs to no tenant/);
  });

  it('each tenant to its own queue of a name', async () => {
    const other = await service.tenant();
    await enqueue('shared-name');
    await rest.put('/v1/queues/shared-name', {});
    await active(true, trigger('shared-name'));
    const theirs = { apiKey: other.key, queue: 'shared-name' };
    const [own, others] = await Promise.all([keda.getMetrics(trigger('shared-name')), keda.getMetrics(theirs)]);
    assert.deepEqual([own.metricValueFloat, others.metricValueFloat], [1, 0]);
    assert.equal(await keda.isActive(theirs), false);
    const stream = watch(theirs);
    await said(stream, [false]);
    await enqueue('shared-name');
    await enqueue('shared-name', {}, other);
    await said(stream, [false, true]);
  });

  it('a key that is bound to queues to those, and says which one it may not use', async () => {
    const made = await rest.post('/v1/keys', { name: 'bound', scopes: ['work'], queues: ['bound-*'] });
    assert.equal(made.status, 201, made.text);
    const metadata = { apiKey: made.body.secret, queue: 'bound-a' };
    assert.equal(await keda.isActive(metadata), false);
    const beyond = { ...metadata, queue: 'bound-a,free' };
    const says = /^scalerMetadata\.queue\[1\] names a queue that this key may not use/;
    for (const call of [keda.isActive(beyond), keda.getMetricSpec(beyond), keda.getMetrics(beyond)]) {
      await refused(call, 'PERMISSION_DENIED', says);
    }
    const { code, details } = await watch(beyond).ended;
    assert.equal(code, status.PERMISSION_DENIED);
    assert.match(details, says);
  });

  it('no key that is revoked, and no tenant that is suspended; their streams end', async () => {
    const made = await rest.post('/v1/keys', { name: 'leaving', scopes: ['work'] });
    const leaving = { apiKey: made.body.secret, queue: 'q' };
    const other = await service.tenant({ name: 'suspended' });
    const suspended = { apiKey: other.key, queue: 'q' };
    const open = [watch(leaving), watch(suspended)];
    for (const stream of open) await said(stream, [false]);
    assert.equal((await rest.delete('/v1/keys/leaving')).status, 200);
    assert.equal((await service.admin.post('/v1/admin/tenants/suspended/suspend')).status, 200);
    await refused(keda.isActive(leaving), 'UNAUTHENTICATED');
    await refused(keda.isActive(suspended), 'PERMISSION_DENIED', /suspended/);
    assert.deepEqual(
      (await Promise.all(open.map(({ ended }) => ended))).map(({ code }) => code),
      [status.UNAUTHENTICATED, status.PERMISSION_DENIED],
    );
  });

  it('as many calls and streams as the limits say', async () => {
    const limited = await service.tenant({ name: 'limited' });
    await service.admin.patch('/v1/admin/tenants/limited', { limits: { streams: 1 } });
    const metadata = { apiKey: limited.key, queue: 'q' };
    await until(
      'the limit holds',
      async () => (await service.admin.get('/v1/admin/tenants/limited')).body.limits.streams === 1,
    );
    const first = watch(metadata);
    await said(first, [false]);
    assert.equal((await watch(metadata).ended).code, status.RESOURCE_EXHAUSTED);
    first.cancel();
    await until(
      'there is room again',
      async () => {
        const next = watch(metadata);
        const outcome = await Promise.race([next.ended, said(next, [false])]);
        return outcome === true;
      },
      5_000,
    );
    await service.admin.patch('/v1/admin/tenants/limited', { limits: { requestsPerSecond: 1 } });
    await assert.rejects(Promise.all(Array.from({ length: 20 }, () => keda.isActive(metadata))), (error) => {
      assert.equal(codeOf(error), 'RATE_LIMITED');
      return true;
    });
  });
});

describe('a stream of the external scaler', () => {
  it('says what is so at once, and up from zero within a second of an enqueue, whether or not the queue was there', async () => {
    await rest.put('/v1/queues/up', {});
    for (const queue of ['up', 'up-unknown']) {
      const stream = watch(trigger(queue));
      await said(stream, [false]);
      await enqueue(queue);
      await said(stream, [false, true], 1_000);
      const late = watch(trigger(queue));
      await said(late, [true], 1_000);
    }
  });

  it('hears of jobs that other instances took, into queues old and new', async () => {
    const other = await service.another();
    const there = clientFor(other.base, rest.key);
    await rest.put('/v1/queues/there', {});
    const streamsHere = [watch(trigger('there')), watch(trigger('there-unknown'))];
    for (const stream of streamsHere) await said(stream, [false]);
    for (const queue of ['there', 'there-unknown']) await enqueue(queue, {}, there);
    for (const stream of streamsHere) await said(stream, [false, true], 1_000);
    await other.stop();
  });

  it('says so when a scheduled job is due', async () => {
    const stream = watch(trigger('due'));
    await said(stream, [false]);
    await enqueue('due', { delay: '1.5s' });
    await until('a second has passed', () => stream.received.length > 1, 1_000).then(
      () => assert.fail('it is not due yet'),
      () => undefined,
    );
    await said(stream, [false, true], 1_500);
  });

  it('says no only when the last leased job is settled, and then says so', async () => {
    for (let n = 0; n < 2; n += 1) await enqueue('down');
    const stream = watch(trigger('down'));
    await said(stream, [true]);
    const jobs = await lease('down', 2);
    await ack(jobs.slice(0, 1));
    const later = watch(trigger('down'));
    await said(later, [true]);
    await ack(jobs.slice(1));
    await said(stream, [true, false], 8_000);
    await said(later, [true, false], 1_000);
    await enqueue('down');
    await said(stream, [true, false, true], 1_000);
  });

  it('hears that its queue is paused, resumed and deleted', async () => {
    await enqueue('switched');
    const stream = watch(trigger('switched'));
    await said(stream, [true]);
    await rest.post('/v1/queues/switched/pause');
    await said(stream, [true, false], 1_000);
    await rest.post('/v1/queues/switched/resume');
    await said(stream, [true, false, true], 1_000);
    assert.ok((await rest.delete('/v1/queues/switched?force=true')).status < 300);
    await said(stream, [true, false, true, false], 2_000);
  });

  it('looks a few times a second at most however much happens, once for all streams, and not at all when none is open', async () => {
    const statements = recordStatements();
    try {
      const looks = (): number => statements.times('ordinary queue-depths');
      const open = Array.from({ length: 20 }, () => watch(trigger('flood', { activationThreshold: '1000000' })));
      for (const stream of open) await said(stream, [false]);
      const before = looks();
      await enqueueFor('flood', 2_000);
      assert.ok(looks() - before >= 5 && looks() - before <= 12, `${looks() - before} looks in two seconds`);
      for (const stream of open) stream.cancel();
      await until('all are gone', async () => (await metric(rest, 'stint_open_streams')) === 0);
      const after = looks();
      await enqueueFor('flood', 6_000);
      assert.equal(looks(), after);
    } finally {
      statements.stop();
    }
  });

  it('ends well when the service stops, and before its connection is too old', async () => {
    const other = await service.another();
    const client = scalerClient(other.grpc);
    const stream = watch(trigger('stops'), client);
    await said(stream, [false]);
    const stopped = other.stop();
    assert.equal((await stream.ended).code, status.OK);
    await stopped;
    client.close();
    const short = await service.another({ STINT_GRPC_CONNECTION_SECONDS: '1' });
    const again = scalerClient(short.grpc);
    const young = watch(trigger('stops'), again);
    await said(young, [false]);
    assert.equal((await young.ended).code, status.OK);
    again.close();
    await short.stop();
  });

  it('is counted while it is open, and what it does by its name', async () => {
    const stream = watch(trigger('counted'));
    await said(stream, [false]);
    assert.ok((await metric(rest, 'stint_open_streams')) >= 1);
    stream.cancel();
    await until('it is gone', async () => (await metric(rest, 'stint_open_streams')) === 0);
    const { text } = await rest.get('/metrics');
    for (const name of ['IsActive', 'StreamIsActive', 'GetMetricSpec', 'GetMetrics']) {
      assert.match(
        text,
        new RegExp(`^stint_operations_total\\{operation="${name}",transport="grpc",code="OK"\\} `, 'm'),
      );
    }
  });
});

async function metric(client: Client, name: string): Promise<number> {
  const { text } = await client.get('/metrics');
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
}

async function enqueueFor(queue: string, milliseconds: number): Promise<void> {
  const began = performance.now();
  while (performance.now() - began < milliseconds) await enqueue(queue);
}
