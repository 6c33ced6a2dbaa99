import assert from 'node:assert/strict';
import { cp, readFile } from 'node:fs/promises';
import { connect, constants } from 'node:http2';
import { after, before, describe, it } from 'node:test';
import { Client as Channel, credentials, type ChannelCredentials, Metadata, status } from '@grpc/grpc-js';
import { type Certificates, createCertificates, WITHOUT_OPENSSL } from '../helpers/certificates.js';
import { grpcClient } from '../helpers/grpc.js';
import { startTestService, type TestService, until } from '../helpers/service.js';

/** A call of health, by a channel of its own: the status, 0 for OK. */
async function health(target: string, how: ChannelCredentials, service = ''): Promise<{ code: number; bytes: Buffer }> {
  const channel = new Channel(target, how);
  const request =
    service === '' ? Buffer.alloc(0) : Buffer.concat([Buffer.from([10, service.length]), Buffer.from(service)]);
  try {
    return await new Promise((resolve) => {
      channel.makeUnaryRequest(
        '/grpc.health.v1.Health/Check',
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        request,
        new Metadata(),
        { deadline: Date.now() + 5_000 },
        (error, bytes) => resolve({ code: error?.code ?? 0, bytes: bytes ?? Buffer.alloc(0) }),
      );
    });
  } finally {
    channel.close();
  }
}

const SERVING = Buffer.from([8, 1]);

describe('the gRPC transport', () => {
  it('answers health for the server and each service, and turns not serving before it stops', async () => {
    const service = await startTestService({ STINT_DRAIN_DELAY_SECONDS: '1' });
    const rest = await service.tenant();
    assert.deepEqual(await health(service.grpc, credentials.createInsecure()), { code: 0, bytes: SERVING });
    assert.deepEqual(await health(service.grpc, credentials.createInsecure(), 'stint.v1.Jobs'), {
      code: 0,
      bytes: SERVING,
    });
    assert.equal((await health(service.grpc, credentials.createInsecure(), 'nobody')).code, status.NOT_FOUND);
    const stopped = service.stop();
    await until(
      'not serving',
      async () => (await health(service.grpc, credentials.createInsecure())).bytes[1] === 2,
      900,
    );
    const grpc = grpcClient(service.grpc, rest.key);
    await grpc.call('Jobs', 'Enqueue', { queue: 'still' });
    grpc.close();
    await stopped;
  });

  it('C73: lets clients ping now and then, and cuts one that pings without end', async () => {
    const service = await startTestService();
    const session = connect(`http://${service.grpc}`);
    const goaways: [number, string][] = [];
    session.on('error', () => undefined);
    session.on('goaway', (code: number, _last: number, data: Buffer) => goaways.push([code, data.toString()]));
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.end(Buffer.alloc(5));
    stream.resume();
    await new Promise((resolve) => stream.on('close', resolve));
    const ping = (): Promise<boolean> =>
      new Promise((resolve) => {
        if (!session.ping((error) => resolve(error === null))) resolve(false);
      });
    for (let n = 0; n < 3; n += 1) assert.equal(await ping(), true);
    assert.deepEqual(goaways, []);
    for (let n = 0; n < 3 && goaways.length === 0; n += 1) await ping();
    await until('it is cut', () => goaways.length > 0, 1_000);
    assert.deepEqual(goaways, [[constants.NGHTTP2_ENHANCE_YOUR_CALM, 'too_many_pings']]);
    assert.equal((await health(service.grpc, credentials.createInsecure())).code, 0, 'its neighbours go on');
    session.destroy();
    await service.stop();
  });

  it('C72: asks a stream to go before its connection is too old, so that its worker connects anew', async () => {
    const service = await startTestService({ STINT_GRPC_CONNECTION_SECONDS: '1' });
    const { key } = await service.tenant();
    const grpc = grpcClient(service.grpc, key);
    const worker = grpc.work();
    worker.send({ hello: { queues: [{ name: 'q' }], credits: 1 } });
    await until('the notice', () => worker.received.some((message) => message.drain != null), 2_000);
    worker.stream.end();
    assert.equal((await worker.ended).code, status.OK);
    grpc.close();
    await service.stop();
  });
});

describe('gRPC over TLS', { skip: WITHOUT_OPENSSL }, () => {
  let certificates: Certificates;
  let service: TestService;
  const file = (name: string): string => certificates.file(name);

  const trusting = async (root: string, client?: string): Promise<ChannelCredentials> =>
    client === undefined
      ? credentials.createSsl(await readFile(file(root)))
      : credentials.createSsl(
          await readFile(file(root)),
          await readFile(file(`${client}.key`)),
          await readFile(file(`${client}.crt`)),
        );

  before(async () => {
    certificates = await createCertificates();
    for (const name of ['one', 'two']) certificates.authority(name);
    certificates.sign('server', 'one');
    certificates.sign('next', 'two');
    certificates.sign('client', 'one');
    certificates.sign('stranger', 'two');
    service = await startTestService({
      STINT_GRPC_TLS_CERT_FILE: file('server.crt'),
      STINT_GRPC_TLS_KEY_FILE: file('server.key'),
      STINT_GRPC_TLS_CLIENT_CA_FILE: file('one.crt'),
    });
  });

  after(async () => {
    await service.stop();
    await certificates.remove();
  });

  it('serves those who have a certificate of its authority, and nobody else', async () => {
    assert.equal((await health(service.grpc, await trusting('one.crt', 'client'))).code, 0);
    assert.equal((await health(service.grpc, await trusting('one.crt', 'stranger'))).code, status.UNAVAILABLE);
    assert.equal((await health(service.grpc, await trusting('one.crt'))).code, status.UNAVAILABLE);
    assert.equal((await health(service.grpc, credentials.createInsecure())).code, status.UNAVAILABLE);
  });

  it('takes new certificates when its files change, and keeps the old ones while they do not fit', async () => {
    await cp(file('next.key'), file('server.key'));
    const renewed = await trusting('two.crt', 'client');
    assert.equal(
      (await health(service.grpc, await trusting('one.crt', 'client'))).code,
      0,
      'a key without its certificate',
    );
    await cp(file('next.crt'), file('server.crt'));
    await until('the new one is shown', async () => (await health(service.grpc, renewed)).code === 0, 15_000);
  });

  it('does not start with files that are missing or do not fit', async () => {
    const start = (env: Record<string, string>) => startTestService(env).then((started) => started.stop());
    await assert.rejects(
      start({ STINT_GRPC_TLS_CERT_FILE: file('none.crt'), STINT_GRPC_TLS_KEY_FILE: file('client.key') }),
      /the certificate for gRPC cannot be read: ENOENT/,
    );
    await assert.rejects(
      start({ STINT_GRPC_TLS_CERT_FILE: file('client.crt'), STINT_GRPC_TLS_KEY_FILE: file('one.key') }),
      /the certificate, key and authority for gRPC do not fit/,
    );
    await assert.rejects(start({ STINT_GRPC_TLS_CERT_FILE: file('client.crt') }), /give both or neither/);
  });
});
