import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Client, startTestService, type TestService, until } from '../helpers/service.js';
import { type Family, scrape, sumOf } from './scrape.js';

const QUEUES = 10_000;
const MOST_SHOWN = 100;
/** Of one queue: four states, an age, three counters. */
const SERIES_A_QUEUE = 8;

let service: TestService;
let client: Client;

before(async () => {
  service = await startTestService();
  client = await service.tenant({ name: 'acme' });
});
after(() => service.stop());

function namedIn(families: readonly Family[]): Set<string> {
  const queues = families.flatMap(({ series }) => series.map(({ labels }) => labels['queue']));
  return new Set(queues.filter((queue) => queue !== undefined && queue !== 'other') as string[]);
}

test(
  'C79: ten thousand queues do not grow a scrape, and queues that are gone are gone from it',
  { timeout: 120_000 },
  async () => {
    assert.equal((await client.post('/v1/queues/first/jobs', {})).status, 201);
    await service.sql(
      `with made as (
      insert into stint.queue (tenant_id, name) select tenant_id, 'many-' || n from stint.queue, generate_series(1, $1::int) as n
      where name = 'first' returning id
    )
    insert into stint.queue_count (queue_id, scheduled, enqueued) select id, 1 + id % 1000, 1 + id % 1000 from made`,
      [QUEUES],
    );
    const total = (families: readonly Family[]): number | undefined =>
      sumOf([families], 'stint_queue_jobs', { state: 'scheduled' });
    const [{ jobs }] = await service.sql('select sum(scheduled)::int as jobs from stint.queue_count');
    await until('they are sampled', async () => total(await scrape(service.base)) === jobs, 30_000);

    const began = performance.now();
    const families = await scrape(service.base);
    assert.ok(performance.now() - began < 1_000, `a scrape took ${performance.now() - began} ms`);
    const named = namedIn(families);
    assert.ok(named.size > 0 && named.size <= MOST_SHOWN, `${named.size} queues`);
    const withQueue = families.flatMap(({ series }) => series).filter(({ labels }) => labels['queue'] !== undefined);
    assert.ok(withQueue.length <= named.size * SERIES_A_QUEUE + 4, `${withQueue.length} series`);

    await service.sql(`update stint.queue set closed_at = now() where name like 'many-%'`);
    await until(
      'none is left',
      async () => [...namedIn(await scrape(service.base))].every((name) => name === 'first'),
      30_000,
    );
  },
);
