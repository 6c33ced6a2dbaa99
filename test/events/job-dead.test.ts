import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { readMigrations } from '../../src/db/read-migrations.js';
import type { Client } from '../helpers/service.js';
import { type Endpoint, verified } from './endpoint.js';
import { deliveryOf, letDie, openRoom, putWebhook, type Room } from './room.js';

describe('job.dead', () => {
  let room: Room;
  let client: Client;
  let endpoint: Endpoint;

  before(async () => {
    room = await openRoom();
    client = await room.tenant();
    endpoint = await room.endpoint();
  });

  after(() => room.close());

  it('is delivered once for a death, signed, with what is known of the job but its payload', async () => {
    const secret = await putWebhook(client, 'plain', { url: endpoint.url, queues: ['mail'] });
    const [jobId] = await letDie(client, 'mail', [{ kind: 'letter', payload: { secret: 'kept' } }]);
    await room.tick();
    assert.equal(endpoint.received.length, 1);
    const [one] = endpoint.received;
    const event = verified(secret, one!);
    assert.equal(one!.headers['webhook-id'], event.id);
    assert.deepEqual([event.type, event.timestamp], ['job.dead', event.data.diedAt]);
    const { enqueuedAt, diedAt, ...data } = event.data;
    assert.deepEqual(data, {
      jobId,
      queue: 'mail',
      kind: 'letter',
      attempts: 1,
      reason: 'final',
      lastError: { message: 'no use', type: 'test' },
    });
    assert.ok(enqueuedAt <= diedAt);
    assert.doesNotMatch(one!.text, /kept|told/);
    await room.tick();
    assert.equal(endpoint.received.length, 1);
    assert.deepEqual(await deliveryOf(client, 'plain'), { waiting: 0, delivered: 1, dead: 0, dropped: 0, failures: 0 });
    await client.delete('/v1/webhooks/plain');
  });

  it('is emitted whatever a job dies of', async () => {
    endpoint.received.length = 0;
    await putWebhook(client, 'all', { url: endpoint.url });
    await client.put('/v1/queues/ways', { maxAttempts: 1 });
    const { body } = await client.post('/v1/jobs/batch', {
      jobs: ['nacked', 'lapsed', 'bodiless'].map((kind) => ({ queue: 'ways', kind })),
    });
    const [nacked, lapsed, bodiless] = body.jobs.map(({ id }: { id: string }) => id);
    await room.service.sql('delete from stint.job where id = $1', [bodiless]);
    const leased = await client.post('/v1/queues/ways/lease', { maxJobs: 3 });
    const token = leased.body.jobs.find(({ id }: { id: string }) => id === nacked).leaseToken;
    await client.post(`/v1/jobs/${nacked}/nack`, { leaseToken: token });
    await room.service.sql(`update stint.lease set lease_expires_at = now() - interval '1 second'`);
    const expiring = await client.post('/v1/queues/ways/jobs', { expiresAt: '2099-01-01T00:00:00Z' });
    await room.service.sql(`update stint.job_expiry set expires_at = now() - interval '1 second'`);
    await room.service.sql(
      `update stint.ready set expires_at = now() - interval '1 second' where expires_at is not null`,
    );
    await room.service.sql(
      `update stint.job set expires_at = now() - interval '1 second' where expires_at is not null`,
    );
    await room.tick();
    await room.tick();
    const told = endpoint.received.map(({ event }) => [event.data.jobId, event.data.reason]);
    assert.deepEqual(
      told.toSorted(),
      [
        [nacked, 'attempts_spent'],
        [lapsed, 'attempts_spent'],
        [bodiless, 'body_missing'],
        [expiring.body.id, 'expired'],
      ].toSorted(),
    );
    const ofLapsed = endpoint.received.find(({ event }) => event.data.jobId === lapsed);
    assert.equal(ofLapsed!.event.data.lastError.type, 'lease_expired');
    await client.delete('/v1/webhooks/all');
  });

  it('holds the payload to the byte where that is asked for, and says so where it is too large', async () => {
    endpoint.received.length = 0;
    const secret = await putWebhook(client, 'whole', { url: endpoint.url, includePayload: true, queues: ['bodies'] });
    const text = '{"b":9007199254740993,"a":1.0,"a":"\\u0000\\ud800"}';
    const made = await client.post('/v1/queues/bodies/jobs', `{"payload":${text}}`);
    assert.equal(made.status, 201, made.text);
    await client.post('/v1/queues/bodies/jobs', { payloadBase64: Buffer.from([0, 255]).toString('base64') });
    await client.post('/v1/queues/bodies/jobs', { payload: 'x'.repeat(70_000) });
    const leased = await client.post('/v1/queues/bodies/lease', { maxJobs: 3 });
    for (const { id, leaseToken } of leased.body.jobs)
      await client.post(`/v1/jobs/${id}/nack`, { leaseToken, final: true });
    await room.tick();
    const texts = endpoint.received.map((one) => [verified(secret, one).data, one.text]);
    assert.equal(texts.filter(([, whole]) => whole.includes(`"payload":${text}`)).length, 1);
    assert.ok(texts.some(([data]) => data.payloadBase64 === 'AP8=' && data.contentType === 'application/octet-stream'));
    assert.ok(texts.some(([data]) => data.payloadLeftOut === true && data.payload === undefined));
    await client.delete('/v1/webhooks/whole');
  });

  it('is told to every webhook whose queues it is of, under one id, and to no other tenant', async () => {
    const stranger = await room.tenant();
    const [exact, pattern, other, foreign] = await Promise.all([1, 2, 3, 4].map(() => room.endpoint()));
    await putWebhook(client, 'exact', { url: exact!.url, queues: ['pay-eu', 'x'] });
    await putWebhook(client, 'pattern', { url: pattern!.url, queues: ['pay-*'] });
    await putWebhook(client, 'other', { url: other!.url, queues: ['pay', 'pay-e'] });
    await putWebhook(stranger, 'foreign', { url: foreign!.url });
    await letDie(client, 'pay-eu');
    await room.tick();
    assert.deepEqual(
      [exact, pattern, other, foreign].map((each) => each!.received.length),
      [1, 1, 0, 0],
    );
    assert.equal(exact!.received[0]!.event.id, pattern!.received[0]!.event.id);
    for (const name of ['exact', 'pattern', 'other']) await client.delete(`/v1/webhooks/${name}`);
  });

  it('costs nothing to keep when nobody asks for it', async () => {
    await letDie(client, 'unheard', [{}, {}]);
    assert.deepEqual(await room.service.sql('select * from stint.event'), []);
  });

  it('is not emitted when the statement that let the job die is undone', async () => {
    await putWebhook(client, 'undone', { url: endpoint.url });
    await client.post('/v1/queues/undone/jobs', {});
    await client.post('/v1/queues/undone/lease', {});
    await room.service.sql(
      `do $$ begin
        with gone as (delete from stint.lease returning *)
        insert into stint.dead (job_id, ended_at, queue_id, epoch, attempt, releases, size, rank, reason, ended)
        select job_id, now(), queue_id, epoch, attempt, releases, size, rank, 'final', 'nacked' from gone;
        perform 1 / 0;
      exception when division_by_zero then null; end $$`,
    );
    assert.deepEqual(await room.service.sql('select * from stint.event'), []);
    await client.delete('/v1/webhooks/undone');
  });

  it('comes from a function whose source stands in a file of its own, as that of schedule.failed does', async () => {
    const migrations = await readMigrations();
    for (const name of ['record-deaths', 'record-schedule-failures']) {
      const source = readFileSync(new URL(`../../../src/events/${name}.sql`, import.meta.url), 'utf8');
      assert.ok(migrations.some(({ sql }) => sql.includes(source)));
    }
  });
});
