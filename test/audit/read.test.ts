import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { done, newWorld, type World } from './acts.js';

let service: TestService;
let acme: World;
let globex: World;

before(async () => {
  service = await startTestService();
  [acme, globex] = [await newWorld(service), await newWorld(service)];
  for (const { own } of [acme, globex]) {
    for (const name of ['a', 'b', 'c', 'd']) await done(own.put(`/v1/queues/${name}`, {}));
    await done(own.post('/v1/queues/a/pause'));
  }
});
after(() => service.stop());

const read = async (client: Client, path: string): Promise<any> => (await done(client.get(path))).body;
const targets = (body: { events: { target: string }[] }): string[] => body.events.map(({ target }) => target);

test('a tenant reads what its keys did and what was done to it, oldest first, and nothing of others', async () => {
  const { events, nextCursor } = await read(acme.own, '/v1/audit');
  assert.equal(nextCursor, undefined);
  assert.deepEqual(
    events.map(({ action, target, actor }: any) => [action, target, actor.name]),
    [
      ['CreateTenant', `tenant ${acme.tenant.name}`, 'root'],
      ['CreateApiKey', 'key all', 'root'],
      ['PutQueue', 'queue a', 'all'],
      ['PutQueue', 'queue b', 'all'],
      ['PutQueue', 'queue c', 'all'],
      ['PutQueue', 'queue d', 'all'],
      ['PauseQueue', 'queue a', 'all'],
    ],
  );
  assert.ok(events.every((event: any) => event.tenant === acme.tenant.id));
  assert.deepEqual(await read(service.admin, `/v1/admin/audit?tenant=${acme.tenant.name}`), { events });
  assert.deepEqual(await read(service.admin, `/v1/admin/audit?tenant=${acme.tenant.id.toUpperCase()}`), { events });
});

test('another tenant’s cursor shows nothing of the other tenant', async () => {
  const { nextCursor } = await read(acme.own, '/v1/audit?limit=1');
  const { events } = await read(globex.own, `/v1/audit?cursor=${nextCursor}`);
  assert.ok(events.length > 0 && events.every((event: any) => event.tenant === globex.tenant.id));
});

for (const limit of [1, 2, 3, 7]) {
  test(`pages of ${limit} show every event once, in order`, async () => {
    const whole = targets(await read(acme.own, '/v1/audit'));
    const paged: string[] = [];
    let pages = 0;
    for (let cursor: string | undefined = ''; cursor !== undefined; pages += 1) {
      const page: any = await read(acme.own, `/v1/audit?limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`);
      assert.ok(page.events.length <= limit);
      paged.push(...targets(page));
      cursor = page.nextCursor;
    }
    assert.deepEqual(paged, whole);
    assert.equal(pages, Math.ceil(whole.length / limit));
  });
}

test('`since` is inclusive and `until` exclusive, to the microsecond, together with a cursor too', async () => {
  const { events } = await read(acme.own, '/v1/audit');
  for (const [index, { at }] of events.entries()) {
    assert.deepEqual((await read(acme.own, `/v1/audit?since=${at}`)).events, events.slice(index));
    assert.deepEqual((await read(acme.own, `/v1/audit?until=${at}`)).events, events.slice(0, index));
  }
  const { nextCursor } = await read(acme.own, '/v1/audit?limit=4');
  const late = await read(acme.own, `/v1/audit?cursor=${nextCursor}&since=${events[5].at}`);
  assert.deepEqual(late.events, events.slice(5));
  const early = await read(acme.own, `/v1/audit?cursor=${nextCursor}&since=${events[1].at}&until=${events[6].at}`);
  assert.deepEqual(early.events, events.slice(4, 6));
  for (const [since, shown] of [
    ['0001-01-01T00:00:00Z', events.length],
    ['9999-12-31T00:00:00Z', 0],
  ] as const) {
    assert.equal((await read(acme.own, `/v1/audit?since=${since}`)).events.length, shown);
  }
});

test('`action` chooses one operation', async () => {
  const { events } = await read(acme.own, '/v1/audit?action=PauseQueue');
  assert.deepEqual(
    events.map(({ target, before, after }: any) => [target, before, after]),
    [['queue a', { paused: false }, { paused: true }]],
  );
});

test('the log of a deleted tenant is found by its id; its name is not known any more', async () => {
  const gone = await newWorld(service);
  await done(service.admin.delete(`/v1/admin/tenants/${gone.tenant.id}`));
  const { events } = await read(service.admin, `/v1/admin/audit?tenant=${gone.tenant.id}`);
  assert.deepEqual(
    events.map(({ action }: any) => action),
    ['CreateTenant', 'CreateApiKey', 'DeleteTenant'],
  );
  assert.equal((await service.admin.get(`/v1/admin/audit?tenant=${gone.tenant.name}`)).status, 404);
});

test('a key that is bound to queues may not read the log, nor one without `manage`', async () => {
  const base = `/v1/admin/tenants/${acme.tenant.id}/keys`;
  for (const [name, more] of [
    ['bound', { scopes: ['manage'], queues: ['a*'] }],
    ['reader', { scopes: ['read', 'enqueue', 'work'] }],
  ] as const) {
    const key = (await done(service.admin.post(base, { name, ...more }))).body;
    assert.equal((await clientFor(service.base, key.secret).get('/v1/audit')).status, 403, name);
  }
  assert.equal((await acme.own.get('/v1/admin/audit')).status, 403);
  assert.equal((await service.admin.get('/v1/audit')).status, 403);
});

test('a cursor, an instant and an action that are none are refused and named', async () => {
  for (const [field, value] of [
    ['cursor', 'x'],
    ['cursor', Buffer.from('["no-id"]').toString('base64url')],
    ['since', 'yesterday'],
    ['until', '1'],
    ['action', "x'; drop table"],
  ] as const) {
    const answer = await acme.own.get(`/v1/audit?${field}=${encodeURIComponent(value)}`);
    assert.equal(answer.status, 400);
    assert.equal(answer.body.errors[0].field, field);
  }
});
