import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { status } from '@grpc/grpc-js';
import { type CryptoKey, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { grpcClient } from '../helpers/grpc.js';
import { type Client, clientFor, startTestService, type TestService, until } from '../helpers/service.js';

const ISSUER = 'https://login.acme.example/';

describe('tokens of a configured issuer', () => {
  let service: TestService;
  let other: TestService;
  let folder: string;
  let signingKey: CryptoKey;
  let tenant: Client;

  before(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'stint-jwt-'));
    const pair = await generateKeyPair('ES256', { extractable: true });
    signingKey = pair.privateKey;
    const jwks = path.join(folder, 'jwks.json');
    await writeFile(
      jwks,
      JSON.stringify({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'ES256' }] }),
    );
    const issuers = path.join(folder, 'issuers.json');
    const issuer = { issuer: ISSUER, audience: 'stint', jwks, tenantClaim: 'tenant', leewaySeconds: 0 };
    await writeFile(issuers, JSON.stringify([issuer]));
    service = await startTestService({ STINT_JWT_ISSUERS_FILE: issuers });
    other = await service.another();
    tenant = await service.tenant({ name: 'acme' });
  });

  after(async () => {
    await other.stop();
    await service.stop();
    await rm(folder, { recursive: true });
  });

  function token(claims: JWTPayload, seconds = 3_600): Promise<string> {
    return new SignJWT({ tenant: 'acme', scope: 'enqueue work read', sub: 'ada', ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setIssuer(ISSUER)
      .setAudience('stint')
      .setIssuedAt()
      .setExpirationTime(Math.floor(Date.now() / 1_000) + seconds)
      .sign(signingKey);
  }

  const holder = async (claims: JWTPayload = {}, seconds?: number): Promise<Client> =>
    clientFor(service.base, await token(claims, seconds));
  const waiting = async (base: string): Promise<boolean> =>
    /stint_parked_leases 1\b/.test(await (await fetch(`${base}/metrics`)).text());

  it('are taken over REST for the tenant and the scopes that they name', async () => {
    const client = await holder();
    assert.equal((await client.post('/v1/queues/mail/jobs', { payload: 1 })).status, 201);
    assert.equal((await tenant.get('/v1/queues/mail')).body.counts.ready, 1);
    assert.equal((await client.put('/v1/queues/mail', {})).status, 403);
    const leased = await client.post('/v1/queues/mail/lease', {});
    const [{ leaseToken }] = leased.body.jobs;
    assert.deepEqual((await client.post('/v1/leases/ack', { items: [{ leaseToken }] })).body.results, [
      { outcome: 'OK' },
    ]);
  });

  it('are taken over gRPC, on any instance', async () => {
    const grpc = grpcClient(other.grpc, await token({}));
    assert.match(
      (await grpc.call('Jobs', 'Enqueue', { queue: 'grpc', payload: Buffer.from('1') })).id,
      /^[0-9a-f-]{36}$/,
    );
    await assert.rejects(grpc.call('Queues', 'PauseQueue', { queue: 'grpc' }), { code: status.PERMISSION_DENIED });
    await assert.rejects(grpc.call('Admin', 'ListTenants', {}), { code: status.PERMISSION_DENIED });
    grpc.close();
  });

  it('never have the scope admin, whatever they say', async () => {
    const client = await holder({ scope: 'admin manage' });
    for (const path of ['/v1/admin/tenants', '/v1/admin/keys', '/v1/admin/tenants/acme']) {
      const { status: code, body } = await client.get(path);
      assert.equal(`${code} ${body.code}`, '403 PERMISSION_DENIED');
    }
  });

  it('of no tenant of this service, of a suspended or a deleted one are refused, and of one made since are taken', async () => {
    const client = await holder({ tenant: 'late' });
    assert.equal((await client.get('/v1/queues')).status, 401);
    await service.admin.post('/v1/admin/tenants', { name: 'late' });
    assert.equal((await client.get('/v1/queues')).status, 200, 'whoever made it told this instance');
    await service.admin.post('/v1/admin/tenants/late/suspend');
    const refused = await client.get('/v1/queues');
    assert.deepEqual([refused.status, refused.body.detail], [403, 'the tenant is suspended']);
    await service.admin.delete('/v1/admin/tenants/late');
    assert.equal((await client.get('/v1/queues')).status, 401);
  });

  it('that are forged or for another audience are refused in words, with what to send', async () => {
    const [head, claims, signature] = (await token({})).split('.') as [string, string, string];
    const stranger = (await generateKeyPair('ES256')).privateKey;
    const forged = await new SignJWT({ tenant: 'acme', scope: 'work' })
      .setProtectedHeader({ alg: 'ES256', kid: 'k1' })
      .setIssuer(ISSUER)
      .setAudience('stint')
      .setExpirationTime('1h')
      .sign(stranger);
    const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${claims}.`;
    for (const bad of [forged, none, `${head}.${claims}.`, `${head}.${claims}.${signature.slice(0, -4)}AAAA`]) {
      const answer = await clientFor(service.base, bad).get('/v1/queues');
      assert.equal(answer.status, 401);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
      const grpc = grpcClient(service.grpc, bad);
      await assert.rejects(grpc.call('Queues', 'ListQueues', {}), { code: status.UNAUTHENTICATED });
      grpc.close();
    }
  });

  it('as long as 7 KiB pass through both transports', async () => {
    const long = await token({ note: 'n'.repeat(4_800) });
    assert.ok(long.length > 6_500 && long.length < 8_192);
    assert.equal((await clientFor(service.base, long).get('/v1/queues')).status, 200);
    const grpc = grpcClient(service.grpc, long);
    await grpc.call('Queues', 'ListQueues', {});
    grpc.close();
  });

  it('end a parked lease when they run out', async () => {
    const client = await holder({}, 3);
    const began = performance.now();
    const answer = await client.post('/v1/queues/nothing/lease', { wait: '30s' });
    assert.deepEqual([answer.status, answer.body.detail], [401, 'the token has expired']);
    assert.ok(performance.now() - began < 8_500, 'within 5 s of its end');
  });

  it('end a stream when they run out; its leases stay, and count over REST', async () => {
    await tenant.post('/v1/queues/streamed/jobs', { payload: 1 });
    const grpc = grpcClient(other.grpc, await token({}, 4));
    const worker = grpc.work();
    worker.send({ hello: { queues: [{ name: 'streamed' }], credits: 2 } });
    await until('the job', () => worker.received.length === 1);
    const ended = await worker.ended;
    assert.deepEqual([ended.code, ended.details], [status.UNAUTHENTICATED, 'the token has expired']);
    const [{ leaseToken }] = worker.received[0].jobs.jobs;
    assert.deepEqual((await tenant.post('/v1/leases/ack', { items: [{ leaseToken }] })).body.results, [
      { outcome: 'OK' },
    ]);
    grpc.close();
  });

  it('of a tenant that is suspended end their parked leases on every instance within 5 s', async () => {
    await service.admin.post('/v1/admin/tenants', { name: 'parked' });
    const client = clientFor(other.base, await token({ tenant: 'parked' }));
    const answer = client.post('/v1/queues/nothing/lease', { wait: '30s' });
    await until('it is parked', () => waiting(other.base));
    const began = performance.now();
    await service.admin.post('/v1/admin/tenants/parked/suspend');
    assert.equal((await answer).body.detail, 'the tenant is suspended');
    assert.ok(performance.now() - began < 5_000);
  });
});
