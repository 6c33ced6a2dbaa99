import assert from 'node:assert/strict';
import { test } from 'node:test';
import { verified } from './endpoint.js';
import { openRoom, putWebhook } from './room.js';

test('schedule.failed is told once when a schedule begins to fail, and again only when it has fired in between', async (t) => {
  const room = await openRoom();
  t.after(() => room.close());
  const client = await room.tenant();
  const [endpoint, other] = [await room.endpoint(), await room.endpoint()];
  const secret = await putWebhook(client, 'hook', {
    url: endpoint.url,
    events: ['schedule.failed'],
    queues: ['cron-*'],
  });
  await putWebhook(client, 'other', { url: other.url, events: ['schedule.failed'], queues: ['else'] });
  await client.put('/v1/schedules/nightly', { cron: '0 3 * * *', queue: 'cron-1' });
  const due = (zone: string) =>
    room.service.sql(
      `update stint.schedule set time_zone = $1, next_fire_at = date_trunc('minute', now()), look_at = now() - interval '1 second'`,
      [zone],
    );
  for (let n = 0; n < 3; n += 1) {
    await due('Nowhere/Atall');
    await room.tick();
  }
  assert.equal(endpoint.received.length, 1);
  const { fireAt, failedAt, error, ...data } = verified(secret, endpoint.received[0]!).data;
  assert.deepEqual(data, { schedule: 'nightly', queue: 'cron-1' });
  assert.match(fireAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000000Z$/);
  assert.ok(fireAt <= failedAt);
  assert.equal(error, (await client.get('/v1/schedules/nightly')).body.error.message);
  await due('UTC');
  await room.tick();
  await due('Nowhere/Atall');
  await room.tick();
  assert.equal(endpoint.received.length, 2);
  assert.equal(other.received.length, 0);
});
