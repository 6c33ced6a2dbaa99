import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { watchBacklogs } from '../../src/events/watch-backlogs.js';
import { openEngine } from '../model/real.js';
import type { Client } from '../helpers/service.js';
import { type Endpoint, verified } from './endpoint.js';
import { openRoom, putWebhook, type Room } from './room.js';

describe('queue.backlog', () => {
  let room: Room;
  let client: Client;
  let endpoint: Endpoint;

  before(async () => (room = await openRoom()));
  beforeEach(async () => {
    client = await room.tenant();
    endpoint = await room.endpoint();
  });
  after(() => room.close());

  const enqueue = (count: number, more: object = {}) =>
    client.post('/v1/jobs/batch', { jobs: Array.from({ length: count }, () => ({ queue: 'work', ...more })) });
  const finish = async (count: number): Promise<void> => {
    const { body } = await client.post('/v1/queues/work/lease', { maxJobs: count });
    await client.post('/v1/leases/ack', {
      items: body.jobs.map(({ leaseToken }: { leaseToken: string }) => ({ leaseToken })),
    });
  };
  const told = () => endpoint.received.map(({ event }) => [event.data.state, event.data.depth]);

  it('is told once when the depth crosses its threshold, and once when it has cleared', async () => {
    const secret = await putWebhook(client, 'depth', {
      url: endpoint.url,
      events: ['queue.backlog'],
      queues: ['wo*'],
      backlog: { depth: 10 },
    });
    await enqueue(9);
    await enqueue(50, { delay: '1h' });
    await room.tick();
    assert.deepEqual(told(), [], 'nine are ready: what is scheduled does not count');
    await enqueue(1);
    for (let n = 0; n < 3; n += 1) await room.tick();
    await enqueue(5);
    await room.tick();
    assert.deepEqual(told(), [['over', 10]]);
    const event = verified(secret, endpoint.received[0]!);
    assert.deepEqual(event.data, { queue: 'work', state: 'over', depth: 10, threshold: { depth: 10 } });
    await finish(6);
    await room.tick();
    assert.deepEqual(told(), [['over', 10]], 'nine are within a fifth of the threshold');
    await finish(1);
    for (let n = 0; n < 2; n += 1) await room.tick();
    assert.deepEqual(told(), [
      ['over', 10],
      ['cleared', 8],
    ]);
    await enqueue(2);
    await room.tick();
    assert.deepEqual(told().at(-1), ['over', 10]);
  });

  it('is told when the oldest ready job has waited for too long', async () => {
    await putWebhook(client, 'age', { url: endpoint.url, events: ['queue.backlog'], backlog: { oldestAge: '5m' } });
    await enqueue(1, { priority: 5 });
    await enqueue(1);
    await room.tick();
    assert.deepEqual(told(), []);
    await room.service.sql(`update stint.ready set ready_at = now() - interval '6 minutes' where rank = 0`);
    await room.tick();
    const [one] = endpoint.received;
    assert.deepEqual([one!.event.data.state, one!.event.data.threshold], ['over', { oldestAge: '300s' }]);
    assert.match(one!.event.data.oldestAge, /^36\d(\.\d+)?s$/);
    await finish(2);
    await room.tick();
    assert.deepEqual(told().at(-1), ['cleared', 0]);
  });

  it('is told once however many instances look at the same time', async () => {
    await putWebhook(client, 'many', { url: endpoint.url, events: ['queue.backlog'], backlog: { depth: 1 } });
    await enqueue(3);
    const engines = [1, 2, 3].map(() => openEngine(room.service));
    const looks = await Promise.all(engines.map(({ engine }) => watchBacklogs(engine.database.tasks)));
    assert.equal(
      looks.reduce((sum, { crossed }) => sum + crossed, 0),
      1,
    );
    await finish(3);
    const cleared = await Promise.all(engines.map(({ engine }) => watchBacklogs(engine.database.tasks)));
    assert.equal(
      cleared.reduce((sum, look) => sum + look.cleared, 0),
      1,
    );
    await Promise.all(engines.map(({ close }) => close()));
    await room.tick();
    assert.deepEqual(told(), [
      ['over', 3],
      ['cleared', 0],
    ]);
  });

  it('of a queue that is deleted, or watched no more, is not told to have cleared', async () => {
    const watch = { url: endpoint.url, events: ['queue.backlog'], backlog: { depth: 1 } };
    await putWebhook(client, 'narrowed', watch);
    await enqueue(1);
    await client.post('/v1/queues/other/jobs', {});
    await room.tick();
    assert.equal(endpoint.received.length, 2);
    await putWebhook(client, 'narrowed', { ...watch, queues: ['work'] });
    await client.delete('/v1/queues/work?force=true');
    await room.tick();
    await room.tick();
    assert.equal(endpoint.received.length, 2);
    assert.deepEqual(
      await room.service.sql(
        `select a.* from stint.backlog_alert a join stint.webhook w on w.id = a.webhook_id where w.name = 'narrowed'`,
      ),
      [],
    );
  });
});
