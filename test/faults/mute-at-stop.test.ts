import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startProxy, type Proxy } from '../helpers/proxy.js';
import { clientFor, startTestService, type TestService, until } from '../helpers/service.js';

let service: TestService;
let proxy: Proxy;

before(async () => {
  service = await startTestService();
  proxy = await startProxy(service.database.url);
});
after(async () => {
  await proxy.close();
  await service.stop();
});

test('a database that does not answer cannot hold a stop: it ends a little after the drain', async (t) => {
  const { key } = await service.tenant();
  const through = await service.another({ STINT_DATABASE_URL: proxy.url, STINT_DRAIN_SECONDS: '2' });
  t.after(() => through.stop());
  const client = clientFor(through.base, key);
  assert.equal((await client.post('/v1/queues/mute/jobs', {})).status, 201);
  let lost = 0;
  proxy.rules.toServer = (_, { name }) => {
    if (name === 'stint ordinary' || name === 'stint enqueue') lost += 1;
    return 'drop';
  };
  proxy.rules.toClient = () => 'drop';
  const unanswered = client.post('/v1/queues/mute/jobs', {}).then(
    ({ status }) => status,
    () => 0,
  );
  await until('the enqueue is under way', () => lost > 0);
  const began = performance.now();
  await through.stop();
  assert.ok(performance.now() - began < 6_000, `the stop took ${performance.now() - began} ms`);
  assert.ok([0, 503].includes(await unanswered));
});
