import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { checkInvariants } from '../helpers/invariants.js';
import { type Client, startTestService, type TestService } from '../helpers/service.js';
import { createLog } from '../../src/observability/log.js';

const CALLERS = 40;
const POISONED = 17;

describe('one row of a flush that the database refuses', () => {
  let service: TestService;
  let client: Client;

  before(async () => {
    // Each refusal is logged as an error, as it should be; here they are meant.
    service = await startTestService({}, createLog('silent'));
    client = await service.tenant();
    await service.sql(`alter table stint.job add constraint poison check (kind is distinct from 'poison')`);
    await service.sql(
      `alter table stint.finished add constraint poison check (result is distinct from '"poison"'::bytea)`,
    );
    await service.sql(
      `alter table stint.attempt add constraint poison check (error is null or error not like '%poison%')`,
    );
    await service.sql(`alter table stint.lease add constraint poison check (progress is distinct from '"poison"')`);
  });

  afterEach(() => checkInvariants(service));

  after(() => service.stop());

  const isPoisoned = (n: number): boolean => n === POISONED;

  it('fails the enqueue that brought it, and no other caller’s', async () => {
    await client.put('/v1/queues/rows', {});
    const answers = await Promise.all(
      Array.from({ length: CALLERS }, (_, n) =>
        client.post('/v1/queues/rows/jobs', { kind: isPoisoned(n) ? 'poison' : 'sound' }),
      ),
    );
    answers.forEach(({ status, body }, n) =>
      assert.equal(`${status} ${body.code ?? ''}`, isPoisoned(n) ? '500 INTERNAL' : '201 '),
    );
    assert.equal((await client.get('/v1/queues/rows')).body.counts.ready, CALLERS - 1);
  });

  it('fails the whole of a batch of one caller, and no other caller’s', async () => {
    const batch = (kinds: string[]): ReturnType<Client['post']> =>
      client.post('/v1/jobs/batch', { jobs: kinds.map((kind) => ({ queue: 'units', kind })) });
    const answers = await Promise.all([batch(['a', 'b']), batch(['a', 'poison', 'c']), batch(['a', 'b', 'c'])]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 500, 201],
    );
    assert.equal((await client.get('/v1/queues/units')).body.counts.ready, 5);
  });

  for (const [verb, field, value] of [
    ['ack', 'result', 'poison'],
    ['nack', 'error', { message: 'poison' }],
    ['heartbeat', 'progress', 'poison'],
  ] as const) {
    it(`fails the ${verb} that brought it, and no other caller’s`, async () => {
      const queue = `bad-${verb}`;
      await client.post('/v1/jobs/batch', { jobs: Array.from({ length: CALLERS }, () => ({ queue })) });
      const { body } = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: CALLERS, visibilityTimeout: '10m' });
      assert.equal(body.jobs.length, CALLERS);
      const answers = await Promise.all(
        body.jobs.map(({ id, leaseToken }: any, n: number) =>
          client.post(`/v1/jobs/${id}/${verb}`, { leaseToken, ...(isPoisoned(n) ? { [field]: value } : {}) }),
        ),
      );
      answers.forEach(({ status, text }, n) => assert.equal(status, isPoisoned(n) ? 500 : 200, text));
      const { state } = (await client.get(`/v1/jobs/${body.jobs[POISONED].id}`)).body;
      assert.equal(state, 'leased', 'its job is where it was');
    });
  }
});
