import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { type Client, startTestService, type TestService } from '../helpers/service.js';

const run = promisify(execFile);
const grpcurl = findGrpcurl();

/** On the PATH, or where `go install` puts it. */
function findGrpcurl(): string | undefined {
  const { error, stdout } = spawnSync('go', ['env', 'GOPATH'], { encoding: 'utf8' });
  const places = ['grpcurl', ...(error === undefined ? [path.join(stdout.trim(), 'bin', 'grpcurl')] : [])];
  return places.find((place) => spawnSync(place, ['-version']).error === undefined);
}

describe(
  'grpcurl, which knows the service by reflection alone,',
  { skip: grpcurl === undefined && 'grpcurl not installed' },
  () => {
    let service: TestService;
    let tenant: Client;

    before(async () => {
      service = await startTestService();
      tenant = await service.tenant();
    });

    after(() => service.stop());

    async function output(...args: string[]): Promise<string> {
      return (await run(grpcurl!, ['-plaintext', '-max-time', '10', ...args])).stdout;
    }

    async function call(method: string, message: object): Promise<any> {
      const credential = `authorization: Bearer ${tenant.key}`;
      return JSON.parse(await output('-H', credential, '-d', JSON.stringify(message), service.grpc, method));
    }

    it('lists the services', async () => {
      const names = (await output(service.grpc, 'list')).trim().split('\n');
      for (const name of ['stint.v1.Admin', 'stint.v1.Jobs', 'stint.v1.Queues', 'grpc.health.v1.Health']) {
        assert.ok(names.includes(name), names.join(', '));
      }
    });

    it('describes Jobs with its stream, and a message with its fields', async () => {
      const jobs = await output(service.grpc, 'describe', 'stint.v1.Jobs');
      assert.match(jobs, /rpc Enqueue \( \.stint\.v1\.EnqueueRequest \) returns \( \.stint\.v1\.EnqueueResponse \);/);
      assert.match(
        jobs,
        /rpc Work \( stream \.stint\.v1\.WorkRequest \) returns \( stream \.stint\.v1\.WorkResponse \);/,
      );
      const request = await output(service.grpc, 'describe', 'stint.v1.EnqueueRequest');
      assert.match(request, /optional bytes payload = 3;/);
      assert.match(request, /map<string, string> headers = 13;/);
    });

    it('enqueues a job, leases it and acks it', async () => {
      const payload = Buffer.from('{"to":"ada"}').toString('base64');
      const enqueued = await call('stint.v1.Jobs/Enqueue', { queue: 'mail', kind: 'welcome', payload });
      assert.equal(enqueued.state, 'JOB_STATE_READY');

      const { jobs } = await call('stint.v1.Jobs/Lease', { queue: 'mail', wait: '5s', visibilityTimeout: '60s' });
      assert.equal(jobs.length, 1);
      const [{ id, kind, attempt, leaseToken, payload: leased, visibilityTimeout }] = jobs;
      assert.deepEqual([id, kind, attempt, leased, visibilityTimeout], [enqueued.id, 'welcome', 1, payload, '60s']);

      const result = Buffer.from('{"sent":true}').toString('base64');
      const acked = await call('stint.v1.Jobs/Ack', { items: [{ leaseToken, result }] });
      assert.deepEqual(acked, { results: [{ outcome: 'SETTLE_OUTCOME_OK' }] });
      const { body } = await tenant.get(`/v1/jobs/${id}`);
      assert.deepEqual([body.state, body.payload, body.result], ['completed', { to: 'ada' }, { sent: true }]);
    });

    it('shows what was wrong with a call, the details of its status too', async () => {
      const refused = call('stint.v1.Jobs/Enqueue', { queue: 'no good' });
      await assert.rejects(refused, ({ stderr }: { stderr: string }) => {
        assert.match(stderr, /Code: InvalidArgument/);
        assert.match(stderr, /google\.rpc\.BadRequest/);
        return true;
      });
    });

    it('checks the health of the server and of a service', async () => {
      for (const name of ['', 'stint.v1.Jobs']) {
        const checked = await call('grpc.health.v1.Health/Check', { service: name });
        assert.deepEqual(checked, { status: 'SERVING' });
      }
    });
  },
);
