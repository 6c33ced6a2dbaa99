import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { grpcClient } from '../helpers/grpc.js';
import { startTestService, type TestService } from '../helpers/service.js';

const ORIGIN = 'https://console.example.com';
const FORWARDED = { 'x-forwarded-for': '198.51.100.9, 203.0.113.1' };

describe('a service as it is configured', () => {
  let plain: TestService;
  let behindProxy: TestService;
  let made = 0;

  before(async () => {
    plain = await startTestService();
    behindProxy = await plain.another({ STINT_TRUSTED_PROXIES: '127.0.0.0/8,::1', STINT_CORS_ORIGINS: ORIGIN });
  });

  after(async () => {
    await behindProxy.stop();
    await plain.stop();
  });

  /** The address that the audit log has of whoever made a tenant. */
  async function addressNoted(make: (name: string) => Promise<unknown>): Promise<string> {
    const name = `tenant-${++made}`;
    await make(name);
    const { body } = await plain.admin.get(`/v1/admin/audit?tenant=${name}`);
    return body.events[0].address as string;
  }

  const overRest = (service: TestService) => (name: string) =>
    service.admin.post('/v1/admin/tenants', { name }, { headers: FORWARDED });

  it('notes the address of whoever has connected, and believes no header', async () => {
    assert.equal(await addressNoted(overRest(plain)), '127.0.0.1');
    const grpc = grpcClient(plain.grpc, plain.adminKey);
    assert.equal(await addressNoted((name) => grpc.call('Admin', 'CreateTenant', { name })), '127.0.0.1');
    grpc.close();
  });

  it('notes what a trusted proxy says of the caller', async () => {
    assert.equal(await addressNoted(overRest(behindProxy)), '203.0.113.1');
  });

  it('answers the origins it is given, and no other instance does', async () => {
    const tenant = await plain.tenant();
    const ask = (service: TestService) =>
      fetch(`${service.base}/v1/queues/mail/jobs`, {
        method: 'POST',
        headers: { origin: ORIGIN, authorization: `Bearer ${tenant.key}` },
      });
    const allowed = await Promise.all([plain, behindProxy].map(ask));
    assert.deepEqual(
      allowed.map(({ status, headers }) => [status, headers.get('access-control-allow-origin')]),
      [
        [201, null],
        [201, ORIGIN],
      ],
    );
  });
});
