import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { checkInvariants } from '../helpers/invariants.js';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';

const POLLS = 500;
const QUEUES = 50;

describe('500 long polls on a pool of one connection (C30)', () => {
  let service: TestService;
  let client: Client;

  before(async () => {
    service = await startTestService({ STINT_DATABASE_CONNECTIONS: '1' });
    client = await service.tenant();
  });

  after(() => service.stop());

  it(
    'hold none while they wait, keep nobody from it, and are all served when work comes',
    { timeout: 60_000 },
    async () => {
      const polls = Array.from({ length: POLLS }, (_, n) =>
        client.post(`/v1/queues/poll-${n % QUEUES}/lease`, { wait: '40s' }),
      );
      await until('all are parked and nothing runs', async () => {
        const busy = await service.sql(
          `select pid from pg_stat_activity where application_name like 'stint %' and datname = current_database() and state <> 'idle'`,
        );
        const { text } = await client.get('/metrics');
        const parked = text.includes(`\nstint_parked_leases ${POLLS}\n`);
        return parked && busy.length === 0 && /^stint_pool_waiting\{[^}]*pool="ordinary"[^}]*\} 0$/m.test(text);
      });
      const began = performance.now();
      assert.equal((await client.get('/v1/queues?limit=10')).status, 200);
      assert.ok(performance.now() - began < 1_000, 'an ordinary call has a connection at once');
      const jobs = Array.from({ length: POLLS }, (_, n) => ({ queue: `poll-${n % QUEUES}` }));
      const made = await client.post('/v1/jobs/batch', { jobs });
      assert.equal(made.status, 201, made.text);
      const served = await Promise.all(polls);
      assert.ok(performance.now() - began < 10_000, `served after ${performance.now() - began} ms`);
      const ids = served.map(({ body }) => body.jobs[0]?.id).sort();
      assert.deepEqual(ids, made.body.jobs.map(({ id }: { id: string }) => id).sort());
      await checkInvariants(service);
    },
  );
});
