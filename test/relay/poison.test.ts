import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Outbox } from '../../src/relay/outbox.js';
import { until } from '../helpers/service.js';
import { createRelayRoom, type RelayRoom } from './room.js';

describe('rows that Stint will not have', () => {
  let room: RelayRoom;

  before(async () => {
    room = await createRelayRoom();
  });

  afterEach(async () => {
    await room.stopRelays();
    await room.sql('truncate stint_outbox.message');
  });

  after(() => room.close());

  async function reasonOf(key: string): Promise<string | null> {
    const [row] = await room.sql('select parked_reason from stint_outbox.message where key = $1', [key]);
    return row?.parked_reason as string | null;
  }

  const POISONS: readonly (readonly [string, RegExp, string, string, object?])[] = [
    ['a payload that is no JSON', /^payload must be JSON: unexpected end$/, 'q', '{"a":'],
    ['a payload that would be two jobs', /^payload must be JSON/, 'q', '1},{"queue":"other"'],
    ['a payload that is two values', /^payload must be JSON/, 'q', '1,"kind":"x"'],
    ['a payload too deep', /^payload must be at most 512 levels/, 'q', '['.repeat(600) + ']'.repeat(600)],
    ['a payload too deep for a batch', /^INVALID_ARGUMENT/, 'q', '['.repeat(511) + ']'.repeat(511)],
    ['a payload of 3 MiB', /^PAYLOAD_TOO_LARGE: payload must be at most \d+ bytes$/, 'q', `"${'x'.repeat(3 << 20)}"`],
    ['a payload of 9 MiB', /^it takes \d+ bytes: a request may have 8388608$/, 'q', `"${'x'.repeat(9 << 20)}"`],
    ['a bad queue name', /^INVALID_ARGUMENT: queue /, 'no queue', '1'],
    ['an empty queue name', /^INVALID_ARGUMENT: queue /, '', '1'],
    ['an option that does not exist', /^INVALID_ARGUMENT: colour is not a known field$/, 'q', '1', { colour: 'red' }],
    ['an option out of bounds', /^INVALID_ARGUMENT: priority /, 'q', '1', { priority: 5_000 }],
    ['a delay that is none', /^INVALID_ARGUMENT: delay /, 'q', '1', { delay: 'soon' }],
    ['a delay of another type', /^INVALID_ARGUMENT: delay /, 'q', '1', { delay: 5 }],
    ['two times', /^INVALID_ARGUMENT: .*runAt/, 'q', '1', { delay: '1s', runAt: '2031-01-01T00:00:00Z' }],
    ['an option that is a column', /^options must not hold queue/, 'q', '1', { idempotencyKey: 'mine' }],
    ['a bad content type', /^INVALID_ARGUMENT: contentType /, 'q', '1', { contentType: 'bad' }],
  ];

  it('are parked, each with its reason, and those between them are shipped', async () => {
    const keys: string[] = [];
    for (const [index, [, , queue, payload, options]] of POISONS.entries()) {
      await room.enqueue('good', String(index));
      keys.push(await room.enqueue(queue, payload, options));
    }
    await room.enqueue('good', String(POISONS.length));
    const relay = await room.relay();
    await room.drained(30_000);
    for (const [index, [name, reason]] of POISONS.entries())
      assert.match((await reasonOf(keys[index]!))!, reason, name);
    const payloads = (await room.jobs('good')).map(({ payload }) => payload);
    assert.deepEqual(
      payloads.toSorted((a, b) => a - b),
      Array.from({ length: POISONS.length + 1 }, (_, number) => number),
    );
    assert.deepEqual(await room.jobs('q'), []);
    await until('it is measured', async () => {
      const metrics = await (await fetch(`http://127.0.0.1:${relay.port}/metrics`)).text();
      return (
        metrics.includes(`stint_relay_parked_rows ${POISONS.length}\n`) &&
        metrics.includes('stint_relay_waiting_rows 0\n')
      );
    });
  });

  it('a hundred of them in a row block nobody', async () => {
    await room.sql(`select stint_outbox.enqueue('bad name', n::text) from generate_series(1, 100) n`);
    const last = await room.enqueue('behind', '1');
    await room.relay();
    await room.drained(30_000);
    assert.equal((await room.jobs('behind'))[0].idempotencyKey, last);
    const [row] = await room.sql(
      'select count(*)::int as parked from stint_outbox.message where parked_at is not null',
    );
    assert.equal(row.parked, 100);
  });

  it('are sent once more when that is asked for, under the same key', async () => {
    const key = await room.enqueue('retried', '{oops}');
    await room.relay({ pollSeconds: 300 });
    await until('it is parked', async () => (await reasonOf(key)) !== null);
    await room.sql(`update stint_outbox.message set payload = '"mended"' where key = $1`, [key]);
    const outbox = new Outbox({ url: room.databaseUrl, schema: 'stint_outbox', onLost: () => undefined });
    assert.equal(await outbox.retry('00000000-0000-4000-8000-000000000000'), 0);
    assert.equal(await outbox.retry(key), 1);
    await outbox.close();
    await until('it is shipped', async () => (await room.jobs('retried')).length === 1);
    const [job] = await room.jobs('retried');
    assert.deepEqual([job.payload, job.idempotencyKey], ['mended', key]);
  });

  it('those of queues that the key may not use are parked; a key that is refused parks none', async () => {
    const { body: me } = await room.client.get('/v1/tenant');
    const path = `/v1/admin/tenants/${me.id}/keys`;
    const made = await room.service.admin.post(path, { name: 'narrow', scopes: ['enqueue'], queues: ['mine-*'] });
    const [theirs, mine] = [await room.enqueue('theirs', '1'), await room.enqueue('mine-1', '1')];
    await room.relay({ key: made.body.secret as string });
    await room.drained();
    assert.match((await reasonOf(theirs))!, /^PERMISSION_DENIED: queue names a queue that this key may not use$/);
    assert.equal((await room.jobs('mine-1'))[0].idempotencyKey, mine);
    await room.stopRelays();

    const key = await room.enqueue('mine-2', '1');
    const relay = await room.relay({ key: 'nobody' });
    const ready = async () => (await fetch(`http://127.0.0.1:${relay.port}/readyz`)).json() as Promise<any>;
    await until('it says so', async () => /stint: UNAUTHENTICATED/.test((await ready()).detail as string));
    await pause(500);
    assert.equal(await reasonOf(key), null);
  });

  it('an unknown queue parks a row where queues are not made by use', async () => {
    const strict = await room.service.tenant({ autoCreateQueues: false });
    await strict.put('/v1/queues/known', {});
    const [unknown] = [await room.enqueue('unknown', '1'), await room.enqueue('known', '1')];
    await room.relay({ key: strict.key });
    await room.drained();
    assert.match((await reasonOf(unknown))!, /^NOT_FOUND: queue names no queue$/);
  });

  it('a full backlog holds up the rows of its own queue, and parks none', async () => {
    await room.client.put('/v1/queues/narrow', { maxBacklog: 4 });
    assert.equal((await room.client.post('/v1/queues/narrow/jobs', { payload: -1 })).status, 201);
    for (let number = 0; number < 10; number += 1) {
      await room.enqueue('narrow', String(number));
      await room.enqueue('wide', String(number));
    }
    await room.relay();
    await until('the other is shipped whole', async () => (await room.jobs('wide')).length === 10);
    assert.equal((await room.jobs('narrow')).length, 4);
    await room.client.put('/v1/queues/narrow', { reset: ['maxBacklog'] });
    await room.drained(30_000);
    assert.deepEqual(
      (await room.jobs('narrow')).map(({ payload }) => payload),
      Array.from({ length: 11 }, (_, number) => number - 1),
    );
  });

  it('what another server answers parks nothing and deletes nothing', async () => {
    const answers = [
      [400, 'text/html', 'bad'],
      [404, 'text/html', 'not here'],
      [200, 'text/html', '<form>log in</form>'],
      [201, 'application/json', '{"jobs":[]}'],
      [302, 'text/html', ''],
      [409, 'application/json', '{"code":"CONFLICT"}'],
      [500, 'text/plain', 'oops'],
    ] as const;
    let next = 0;
    const seen: number[] = [];
    const server = createServer((request, response) => {
      const [status, type, body] = answers[next++ % answers.length]!;
      seen.push(status);
      request
        .resume()
        .once('end', () => response.writeHead(status, { 'content-type': type, location: '/elsewhere' }).end(body));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const key = await room.enqueue('elsewhere', '1');
    for (let round = 0; seen.length < answers.length; round += 1) {
      assert.ok(round < 20);
      await room.relay({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
      const before = seen.length;
      await until('it has tried', () => seen.length > before);
      await room.stopRelays();
      assert.equal(await reasonOf(key), null);
    }
    server.close();
    server.closeAllConnections();
    const [row] = await room.sql('select attempts from stint_outbox.message');
    assert.equal(row.attempts, 0, 'what was given back counts as no attempt');
  });
});
