import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Client } from '../helpers/service.js';
import { until } from '../helpers/service.js';
import { type Endpoint, verified } from './endpoint.js';
import { deliveryOf, letDie, LOCAL, openRoom, putWebhook, type Room } from './room.js';

describe('deliveries', () => {
  let room: Room;
  let client: Client;
  let endpoint: Endpoint;

  before(async () => (room = await openRoom()));
  beforeEach(async () => {
    client = await room.tenant();
    endpoint = await room.endpoint();
  });
  after(() => room.close());

  const retryNow = () =>
    room.service.sql(
      `update stint.scheduled set due_at = now() - interval '1 second'
      where queue_id in (select queue_id from stint.webhook)`,
    );
  const halfOpen = () => room.service.sql(`update stint.webhook set open_until = now() where open_until is not null`);
  const waits = (): Promise<{ seconds: number; attempt: number }[]> =>
    room.service.sql(
      `select extract(epoch from due_at - now())::float8 as seconds, attempt from stint.scheduled
      where queue_id in (select queue_id from stint.webhook) order by due_at`,
    );

  it('that fail are tried again, under the same id, and retries really run', async () => {
    const secret = await putWebhook(client, 'flaky', { url: endpoint.url });
    await letDie(client, 'mail');
    for (const status of [302, 409, 500]) {
      endpoint.answers(status);
      await retryNow();
      await room.tick();
      const { failures, lastError, waiting } = await deliveryOf(client, 'flaky');
      assert.deepEqual([lastError, waiting], [`status ${status}`, 1]);
      assert.equal(failures, endpoint.received.length);
    }
    endpoint.answers(204);
    await retryNow();
    await room.tick();
    assert.equal(endpoint.received.length, 4);
    assert.equal(new Set(endpoint.received.map(({ headers }) => headers['webhook-id'])).size, 1);
    for (const one of endpoint.received) verified(secret, one);
    assert.deepEqual(
      (({ waiting, delivered, failures }) => [waiting, delivered, failures])(await deliveryOf(client, 'flaky')),
      [0, 1, 0],
    );
  });

  it('are spread when they are tried again, never earlier than their time, and dead after the eighth attempt', async () => {
    endpoint.answers(500);
    await putWebhook(client, 'dead', { url: endpoint.url, maxInFlight: 4 });
    await letDie(
      client,
      'mail',
      Array.from({ length: 4 }, () => ({})),
    );
    const seen: number[] = [];
    for (const [index, delay] of [10, 60, 300, 1_800, 7_200, 21_600, 54_000].entries()) {
      for (
        let round = 0;
        round < 8 && (await waits()).filter(({ attempt }) => attempt === index + 1).length < 4;
        round += 1
      ) {
        await halfOpen();
        await room.tick();
      }
      const after = (await waits()).filter(({ attempt }) => attempt === index + 1).map(({ seconds }) => seconds);
      assert.equal(after.length, 4);
      for (const seconds of after)
        assert.ok(seconds > delay - 6 && seconds <= delay * 1.2, `${seconds} after ${index + 1}`);
      seen.push(...after.map((seconds) => seconds / delay));
      await retryNow();
    }
    assert.ok(Math.max(...seen.slice(-16)) - Math.min(...seen.slice(-16)) > 0.05, 'they are spread');
    for (let round = 0; round < 8 && (await deliveryOf(client, 'dead')).dead < 4; round += 1) {
      await halfOpen();
      await room.tick();
    }
    const { waiting, dead } = await deliveryOf(client, 'dead');
    assert.deepEqual([waiting, dead, endpoint.received.length], [0, 4, 32]);
    endpoint.answers(200);
    await halfOpen();
    assert.deepEqual((await client.post('/v1/webhooks/dead/redrive')).body, { redriven: 4 });
    for (let round = 0; round < 3; round += 1) await room.tick();
    const after = await deliveryOf(client, 'dead');
    assert.deepEqual([after.delivered, after.dead], [4, 0]);
    assert.equal(new Set(endpoint.received.map(({ headers }) => headers['webhook-id'])).size, 4);
  });

  it('honour a Retry-After of 429 and 503 as the least delay, for the whole endpoint', async () => {
    endpoint.answers((_, response) => void response.writeHead(503, { 'retry-after': '600' }).end());
    await putWebhook(client, 'busy', { url: endpoint.url, maxInFlight: 1 });
    await letDie(client, 'mail', [{}, {}]);
    await room.tick();
    assert.equal(endpoint.received.length, 1);
    const seconds = (await waits()).find((each) => each.attempt === 1)!.seconds;
    assert.ok(seconds > 590 && seconds <= 720, String(seconds));
    const { openUntil } = await deliveryOf(client, 'busy');
    assert.ok(Date.parse(openUntil) - Date.now() > 590_000);
  });

  it('end for good when the endpoint says that it is gone, until the webhook is put again', async () => {
    endpoint.answers(410);
    await putWebhook(client, 'gone', { url: endpoint.url, maxInFlight: 1 });
    await letDie(client, 'mail', [{}, {}]);
    await room.tick();
    const { body } = await client.get('/v1/webhooks/gone');
    assert.deepEqual([body.disabled, body.delivery.lastError, body.delivery.dead], [true, 'status 410', 1]);
    await letDie(client, 'mail');
    await room.tick();
    assert.equal(endpoint.received.length, 1);
    endpoint.answers(200);
    await putWebhook(client, 'gone', { url: endpoint.url });
    await room.tick();
    assert.equal(endpoint.received.length, 2, 'what had waited arrives, what came meanwhile was not kept');
  });

  it('stop after five failures in a row for a while, are tried by one, and go on when that arrives', async () => {
    endpoint.answers(500);
    await putWebhook(client, 'breaks', { url: endpoint.url, maxInFlight: 1 });
    await letDie(
      client,
      'mail',
      Array.from({ length: 20 }, () => ({})),
    );
    for (let n = 0; n < 8; n += 1) await room.tick();
    assert.equal(endpoint.received.length, 5);
    const opened = Date.parse((await deliveryOf(client, 'breaks')).openUntil) - Date.now();
    assert.ok(opened > 25_000 && opened <= 36_000, String(opened));
    await halfOpen();
    for (let n = 0; n < 3; n += 1) await room.tick();
    assert.equal(endpoint.received.length, 6, 'one probe');
    const again = Date.parse((await deliveryOf(client, 'breaks')).openUntil) - Date.now();
    assert.ok(again > 50_000 && again <= 72_000, String(again));
    endpoint.answers(200);
    await halfOpen();
    for (let n = 0; n < 30 && (await deliveryOf(client, 'breaks')).delivered < 14; n += 1) await room.tick();
    const { delivered, failures, openUntil } = await deliveryOf(client, 'breaks');
    assert.deepEqual([delivered, failures, openUntil], [14, 0, undefined]);
    assert.equal(endpoint.mostAtOnce(), 1);
  });

  it('are signed by both secrets during an overlap, and by the new one alone after it', async () => {
    const first = await putWebhook(client, 'rotated', { url: endpoint.url });
    const { body } = await client.post('/v1/webhooks/rotated/rotate', { overlap: '1h' });
    assert.match(body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    assert.ok(body.previousSecretUntil);
    await letDie(client, 'mail');
    await room.tick();
    for (const secret of [first, body.secret]) verified(secret, endpoint.received[0]!);
    await room.service.sql(`update stint.webhook set previous_until = now() where previous_until is not null`);
    await letDie(client, 'mail');
    await room.tick();
    verified(body.secret, endpoint.received[1]!);
    assert.throws(() => verified(first, endpoint.received[1]!), /No matching signature/);
  });

  it('wait while the webhook is paused or its tenant suspended', async () => {
    await putWebhook(client, 'resting', { url: endpoint.url, paused: true });
    await letDie(client, 'mail');
    await room.tick();
    await putWebhook(client, 'resting', { url: endpoint.url });
    await room.tick();
    assert.deepEqual([endpoint.received.length, (await deliveryOf(client, 'resting')).waiting], [0, 1]);
    await putWebhook(client, 'resting', { url: endpoint.url, paused: false });
    const tenant = (await client.get('/v1/tenant')).body.id;
    await room.service.admin.post(`/v1/admin/tenants/${tenant}/suspend`);
    await room.tick();
    assert.equal(endpoint.received.length, 0);
    await room.service.admin.post(`/v1/admin/tenants/${tenant}/resume`);
    await room.tick();
    assert.equal(endpoint.received.length, 1);
  });

  it('go with their webhook and with their tenant, and leave nothing', async () => {
    await putWebhook(client, 'temporary', { url: endpoint.url, paused: true });
    await letDie(client, 'mail');
    await room.tick();
    await client.delete('/v1/webhooks/temporary');
    await putWebhook(client, 'orphan', { url: endpoint.url, paused: true });
    await letDie(client, 'mail');
    const { id } = (await client.get('/v1/tenant')).body;
    await room.service.admin.delete(`/v1/admin/tenants/${id}`);
    await until('all is gone', async () => {
      await room.tick();
      const [left] = await room.service.sql(
        `select (select count(*) from stint.webhook where tenant_id = $1) + (select count(*) from stint.event)
          + (select count(*) from stint.tenant where id = $1) + (select count(*) from stint.queue q
            where q.tenant_id = '00000000-0000-0000-0000-000000000000'
              and not exists (select from stint.webhook w where w.queue_id = q.id)) as n`,
        [id],
      );
      return left.n === '0';
    });
    assert.equal(endpoint.received.length, 0);
  });

  it('are bounded: past 100,000 that wait events are dropped and counted', async () => {
    await putWebhook(client, 'full', { url: endpoint.url, paused: true });
    await letDie(client, 'mail');
    await room.tick();
    await room.service.sql(
      `update stint.queue set max_backlog = 2 where id in (select queue_id from stint.webhook where name = 'full')`,
    );
    await letDie(client, 'mail', [{}, {}, {}]);
    await room.tick();
    const { waiting, dropped } = await deliveryOf(client, 'full');
    assert.deepEqual([waiting, dropped], [2, 2]);
  });
});

describe('deliveries of a service that works by itself', () => {
  it('to a healthy endpoint are not held up by one that hangs with thousands waiting', async (t) => {
    const room = await openRoom();
    t.after(() => room.close());
    const service = await room.service.another({ ...LOCAL, STINT_BACKGROUND: 'on' });
    t.after(() => service.stop());
    const client = await service.tenant();
    const hanging = await room.endpoint(() => undefined);
    const healthy = await room.endpoint();
    await putWebhook(client, 'hanging', { url: hanging.url, queues: ['bad'], maxInFlight: 8 });
    await putWebhook(client, 'healthy', { url: healthy.url, queues: ['good'], maxInFlight: 2 });
    for (let n = 0; n < 10; n += 1)
      await letDie(
        client,
        'bad',
        Array.from({ length: 1_000 }, () => ({})),
      );
    await until('the dead endpoint is being tried', () => hanging.received.length >= 8, 30_000);
    assert.equal(hanging.mostAtOnce(), 8);
    const began = performance.now();
    await letDie(
      client,
      'good',
      Array.from({ length: 50 }, () => ({})),
    );
    await until('the healthy one has it all', () => healthy.received.length === 50, 30_000);
    assert.ok(performance.now() - began < 8_000, `${performance.now() - began} ms`);
    assert.ok(healthy.mostAtOnce() <= 2, String(healthy.mostAtOnce()));
    assert.equal(hanging.received.length, 8);
    await until(
      'the circuit is open',
      async () => (await deliveryOf(client, 'hanging')).openUntil !== undefined,
      20_000,
    );
  });

  it('that are under way when it is killed are made again, under the same id', async (t) => {
    const room = await openRoom();
    t.after(() => room.close());
    const client = await room.tenant();
    const endpoint = await room.endpoint();
    await putWebhook(client, 'killed', { url: endpoint.url });
    await letDie(client, 'mail');
    // What a process leaves behind that ends between the answer and its settling: an event that has arrived, under a lease.
    const [{ id }] = await room.service.sql(`select id from stint.event`);
    endpoint.answers((_, response) => {
      void room.service
        .sql(`update stint.lease set lease_id = lease_id + 1, lease_expires_at = now() - interval '1 second'`)
        .then(() => response.writeHead(200).end());
    });
    await room.tick();
    endpoint.answers(200);
    for (let n = 0; n < 3 && endpoint.received.length < 2; n += 1) await room.tick();
    assert.deepEqual(
      endpoint.received.map(({ headers }) => headers['webhook-id']),
      [id, id],
    );
    assert.equal((await deliveryOf(client, 'killed')).delivered, 1);
  });

  it('are given back when it stops, no attempt spent', async (t) => {
    const room = await openRoom();
    t.after(() => room.close());
    const service = await room.service.another({ ...LOCAL, STINT_BACKGROUND: 'on' });
    const client = await service.tenant();
    const hanging = await room.endpoint(() => undefined);
    await putWebhook(client, 'stopped', { url: hanging.url });
    await letDie(client, 'mail');
    await until('it is under way', () => hanging.received.length === 1, 30_000);
    const began = performance.now();
    await service.stop();
    assert.ok(performance.now() - began < 5_000);
    const rows = await room.service.sql(
      `select r.attempt, r.releases from stint.ready r join stint.webhook w on w.queue_id = r.queue_id`,
    );
    assert.deepEqual(rows, [{ attempt: 0, releases: 1 }]);
  });
});
