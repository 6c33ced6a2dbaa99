import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { scrape, sumOf } from './scrape.js';

const JOBS = 7;
/** Of what all instances see: the sum over them must be what there is. */
const SAMPLED = ['stint_queue_jobs', 'stint_schedule_lag_seconds', 'stint_table_bytes'];
const BACKENDS = `select pid from pg_stat_activity where datname = current_database() and application_name = 'stint wakeups'
  order by backend_start, pid`;

describe('of two instances on one database', () => {
  let one: TestService;
  let other: TestService;
  let client: Client;

  before(async () => {
    one = await startTestService();
    other = await one.another();
    client = await one.tenant({ name: 'acme' });
    const jobs = Array.from({ length: JOBS }, () => ({ queue: 'mail' }));
    assert.equal((await client.post('/v1/jobs/batch', { jobs })).status, 201);
  });

  after(async () => {
    await other.stop();
    await one.stop();
  });

  const readyOf = async (services: readonly TestService[]): Promise<(number | undefined)[]> => {
    const labels = { tenant: 'acme', queue: 'mail', state: 'ready' };
    const scrapes = await Promise.all(services.map(({ base }) => scrape(base)));
    return [...scrapes.map((each) => [each]), scrapes].map((each) => sumOf(each, 'stint_queue_jobs', labels));
  };

  it('one shows what both see, so that sums are right', { timeout: 60_000 }, async () => {
    const both = [one, other];
    await until('it is sampled', async () => (await readyOf(both))[2] === JOBS, 20_000);
    // Long enough for the other to have had its turn, too.
    const rounds = async (): Promise<number[]> => {
      const labels = { task: 'sample-depth', result: 'ok' };
      const scrapes = await Promise.all(both.map(({ base }) => scrape(base)));
      return scrapes.map((each) => sumOf([each], 'stint_task_runs_total', labels) ?? 0);
    };
    await until('both have had two turns', async () => Math.min(...(await rounds())) >= 2, 40_000);
    assert.deepEqual(await readyOf(both), [JOBS, undefined, JOBS]);
    for (const name of SAMPLED) {
      assert.equal(sumOf([await scrape(other.base)], name), undefined, `${name} of the other`);
      assert.notEqual(sumOf([await scrape(one.base)], name), undefined, `${name} of the one`);
    }
  });

  it('the other takes over when the first stops to listen, and never do both', { timeout: 60_000 }, async () => {
    const [first] = await one.sql(BACKENDS);
    await one.sql('select pg_terminate_backend($1)', [first.pid]);
    await until('it listens again', async () => (await one.sql(BACKENDS)).length === 2);
    await until(
      'the other shows it',
      async () => {
        const [ofOne, ofOther] = await readyOf([one, other]);
        assert.ok(ofOne === undefined || ofOther === undefined, 'both show it');
        return ofOther === JOBS;
      },
      40_000,
    );
  });

  it('an instance that is alone shows it, once the one before has stopped', { timeout: 60_000 }, async () => {
    await other.stop();
    await until('the one shows it', async () => (await readyOf([one]))[0] === JOBS, 40_000);
  });
});
