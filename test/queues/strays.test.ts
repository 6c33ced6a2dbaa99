import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { enqueue, lease, leased } from '../contract/jobs.js';
import { type Client, startTestService, type TestService } from '../helpers/service.js';

describe('a job that stands in two tables, as none ever should', () => {
  let service: TestService;
  let client: Client;

  before(async () => {
    service = await startTestService();
    client = await service.tenant();
  });

  after(() => service.stop());

  it('is not leased a second time, and the jobs around it are', async () => {
    const stray = await leased(client, 'leases');
    await service.sql(
      `insert into stint.ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
       select queue_id, rank, job_id, now(), 0, 0, 0, 10, 'none' from stint.lease where job_id = $1::uuid`,
      [stray.id],
    );
    const ids = [await enqueue(client, 'leases'), await enqueue(client, 'leases')];
    const jobs = await lease(client, 'leases', { maxJobs: 10, wait: '5s' });
    assert.deepEqual(
      jobs.map(({ id }) => id),
      ids,
    );
    const answer = await client.post(`/v1/jobs/${stray.id}/ack`, { leaseToken: stray.leaseToken });
    assert.deepEqual([answer.status, answer.body.outcome], [200, 'OK']);
  });

  it('is acked all the same, and so are the jobs around it', async () => {
    const jobs = [await leased(client, 'acks'), await leased(client, 'acks'), await leased(client, 'acks')];
    await service.sql(
      `insert into stint.finished (queue_id, rank, job_id, ended_at, state, epoch, attempt, releases, ended)
       select queue_id, rank, job_id, now(), 'completed', 1, 1, 0, 'acked' from stint.lease where job_id = $1::uuid`,
      [jobs[1].id],
    );
    const items = jobs.map(({ leaseToken }) => ({ leaseToken }));
    const { body } = await client.post('/v1/leases/ack', { items });
    assert.deepEqual(
      body.results.map(({ outcome }: { outcome: string }) => outcome),
      ['OK', 'OK', 'OK'],
    );
    assert.deepEqual(
      await service.sql('select count(*)::int as "left" from stint.lease where job_id = any($1::uuid[])', [
        jobs.map(({ id }) => id),
      ]),
      [{ left: 0 }],
    );
    for (const { id } of jobs) assert.equal((await client.get(`/v1/jobs/${id}`)).body.state, 'completed');
  });
});
