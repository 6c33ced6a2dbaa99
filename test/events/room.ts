import assert from 'node:assert/strict';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { type Endpoint, startEndpoint } from './endpoint.js';

/** A service that does its chores when it is told to, by ticks, and whose webhooks may reach this machine. */
export interface Room {
  readonly service: TestService;
  /** Of a new tenant, with every scope but `tick`. */
  tenant(): Promise<Client>;
  /** One round of everything; answers the counts of what it did, by name. */
  tick(): Promise<Readonly<Record<string, number>>>;
  endpoint(...how: Parameters<typeof startEndpoint>): Promise<Endpoint>;
  close(): Promise<void>;
}

export const LOCAL = { STINT_WEBHOOK_ALLOW_NETWORKS: '127.0.0.0/8' };

export async function openRoom(): Promise<Room> {
  const service = await startTestService({ ...LOCAL, STINT_BACKGROUND: 'off' });
  const { body } = await service.admin.post('/v1/admin/tenants', { name: 'clock' });
  const made = await service.admin.post(`/v1/admin/tenants/${body.id}/keys`, { name: 'ticker', scopes: ['tick'] });
  const ticker = clientFor(service.base, made.body.secret as string);
  const endpoints: Endpoint[] = [];
  return {
    service,
    tenant: () => service.tenant(),
    tick: async () => {
      const answer = await ticker.post('/v1/tick');
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(answer.body.failed, [], answer.text);
      const did = answer.body.did as { what: string; count: number }[];
      return Object.fromEntries(did.map(({ what, count }) => [what, count]));
    },
    endpoint: async (...how) => {
      const endpoint = await startEndpoint(...how);
      endpoints.push(endpoint);
      return endpoint;
    },
    close: async () => {
      await Promise.all(endpoints.map((endpoint) => endpoint.close()));
      await service.stop();
    },
  };
}

/** Puts a webhook; answers its secret when it is new. */
export async function putWebhook(client: Client, name: string, fields: object): Promise<string> {
  const { status, body, text } = await client.put(`/v1/webhooks/${name}`, { events: ['job.dead'], ...fields });
  assert.ok(status === 201 || status === 200, text);
  return body.secret as string;
}

/** Lets jobs die in the queue; answers their ids. */
export async function letDie(client: Client, queue: string, jobs: readonly object[] = [{}]): Promise<string[]> {
  const made = await client.post('/v1/jobs/batch', { jobs: jobs.map((job) => ({ queue, ...job })) });
  assert.equal(made.status, 201, made.text);
  const leased = await client.post(`/v1/queues/${queue}/lease`, { maxJobs: jobs.length });
  assert.equal(leased.body.jobs.length, jobs.length);
  const items = leased.body.jobs.map(({ leaseToken }: { leaseToken: string }) => ({
    leaseToken,
    final: true,
    error: { message: 'no use', type: 'test', detail: { not: 'told' } },
  }));
  const nacked = await client.post('/v1/leases/nack', { items });
  assert.equal(nacked.status, 200, nacked.text);
  return made.body.jobs.map(({ id }: { id: string }) => id);
}

/** How its deliveries fare. */
export async function deliveryOf(client: Client, name: string): Promise<any> {
  return (await client.get(`/v1/webhooks/${name}`)).body.delivery;
}
