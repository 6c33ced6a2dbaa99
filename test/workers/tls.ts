import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createCertificates, WITHOUT_OPENSSL } from '../helpers/certificates.js';
import { until } from '../helpers/service.js';
import { createInstallation, endWith, runProgram, type Running, startService } from '../helpers/service-process.js';
import type { Worker } from './room.js';

const JOBS = 20;

/**
 * Declares the test of a worker on the stream against a service that speaks TLS.
 *
 * @param roots the variable by which its gRPC is told whom to trust
 */
export function proveTls(worker: Worker, roots: string, skip: string | false): void {
  test(
    `the ${worker.name} works over TLS, and tells its key to no service that it cannot trust`,
    { skip: skip === false ? WITHOUT_OPENSSL : skip },
    () => overTls(worker, roots),
  );
}

async function overTls(worker: Worker, roots: string): Promise<void> {
  const installation = await createInstallation();
  const certificates = await createCertificates();
  for (const name of ['ours', 'strange']) certificates.authority(name);
  certificates.sign('server', 'ours');
  const service = await startService(installation, {
    STINT_GRPC_TLS_CERT_FILE: certificates.file('server.crt'),
    STINT_GRPC_TLS_KEY_FILE: certificates.file('server.key'),
  });
  const started: Running[] = [];
  const start = (name: string, authority: string): Running => {
    const connection = ['--target', service.grpc, '--key-file', installation.keyFile, '--queue', 'tls'];
    const [program, ...args] = worker.command([...connection, '--worker', name, '--tls']);
    const running = runProgram(program!, args, { PYTHONDONTWRITEBYTECODE: '1', [roots]: certificates.file(authority) });
    started.push(running);
    return running;
  };
  try {
    const jobs = Array.from({ length: JOBS }, () => ({ queue: 'tls', payload: {} }));
    assert.equal((await service.client.post('/v1/jobs/batch', { jobs })).status, 201);
    const ready = async (): Promise<number> => (await service.client.get('/v1/queues/tls/stats')).body.counts.ready;

    const wary = start('wary', 'strange.crt');
    await until('it says that it cannot connect', () => /unavailable/i.test(wary.output()), 20_000);
    assert.equal(await ready(), JOBS);
    assert.equal((await endWith(wary, 'SIGTERM')).code, 0, wary.output());

    const trusting = start('trusting', 'ours.crt');
    const completed = async (): Promise<any[]> =>
      (await service.client.get('/v1/queues/tls/jobs?state=completed')).body.jobs;
    await until('all are done', async () => (await completed()).length === JOBS);
    assert.equal((await endWith(trusting, 'SIGTERM')).code, 0, trusting.output());
  } finally {
    for (const { child, exit } of started) {
      child.kill('SIGKILL');
      await exit;
    }
    await endWith(service, 'SIGTERM');
    await certificates.remove();
    await installation.remove();
  }
}
