import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { status as grpcStatus, type ServiceError } from '@grpc/grpc-js';
import { createLog } from '../../src/observability/log.js';
import { type GrpcClient, grpcClient } from '../helpers/grpc.js';
import { type Client, startTestService, type TestService } from '../helpers/service.js';

/** What would betray the database, the code or the place where it runs. */
const INTERNALS = /broken|column|relation|stint\.|select |insert |postgres|\bat .*:\d+|\.js|node:|42703/i;

interface Line {
  readonly level: string;
  readonly requestId?: string;
  readonly err?: { readonly code?: string; readonly message: string };
}

/** A column without which a call cannot be answered, and the call. */
interface Fault {
  readonly table: string;
  readonly column: string;
  readonly rest: (client: Client) => ReturnType<Client['get']>;
  readonly grpc: (client: GrpcClient) => Promise<unknown>;
}

const FAULTS: readonly Fault[] = [
  {
    table: 'job',
    column: 'kind',
    rest: (client) => client.post('/v1/queues/known/jobs', { payload: 'p' }),
    grpc: (client) => client.call('Jobs', 'Enqueue', { queue: 'known', payload: Buffer.from('1') }),
  },
  {
    table: 'lease',
    column: 'expires_at',
    rest: (client) => client.post('/v1/queues/known/lease', {}),
    grpc: (client) => client.call('Jobs', 'Lease', { queue: 'known' }),
  },
  {
    table: 'job',
    column: 'created_at',
    rest: (client) => client.get('/v1/queues/known/jobs'),
    grpc: (client) => client.call('Jobs', 'ListJobs', { queue: 'known' }),
  },
  {
    table: 'queue_count',
    column: 'ready',
    rest: (client) => client.get('/v1/queues'),
    grpc: (client) => client.call('Queues', 'ListQueues', {}),
  },
];

describe('an error of the inside', () => {
  let service: TestService;
  let rest: Client;
  let grpc: GrpcClient;
  const lines: string[] = [];

  before(async () => {
    const log = createLog('info', { write: (line: string) => void lines.push(line) });
    service = await startTestService({}, log);
    rest = await service.tenant();
    grpc = grpcClient(service.grpc, rest.key);
    for (let n = 0; n < 3; n += 1) assert.equal((await rest.post('/v1/queues/known/jobs', { payload: n })).status, 201);
  });

  after(async () => {
    grpc.close();
    await service.stop();
  });

  const lineOf = (isIt: (requestId: string) => boolean): Line | undefined =>
    lines
      .map((line) => JSON.parse(line) as Line)
      .find(({ level, requestId }) => level === 'error' && requestId !== undefined && isIt(requestId));

  for (const { table, column, rest: overRest, grpc: overGrpc } of FAULTS) {
    it(`is told by nothing but a request id, which finds the line of the log: ${table}.${column}`, async () => {
      await service.sql(`alter table stint.${table} rename column ${column} to broken`);
      try {
        const { status, headers, body, text } = await overRest(rest);
        const requestId = headers.get('x-request-id')!;
        assert.equal(status, 500, text);
        assert.deepEqual(body, {
          type: 'urn:stint:error:INTERNAL',
          title: 'Internal error',
          status: 500,
          detail: 'internal error',
          code: 'INTERNAL',
          requestId,
        });
        for (const [name, value] of headers) assert.doesNotMatch(`${name}: ${value}`, INTERNALS);
        assert.match(lineOf((id) => id === requestId)!.err!.message, /column .* does not exist/);

        const error = await overGrpc(grpc).then(
          () => assert.fail('it was answered'),
          (refused: unknown) => refused as ServiceError,
        );
        assert.deepEqual([error.code, error.details], [grpcStatus.INTERNAL, 'internal error']);
        const trailers = JSON.stringify(error.metadata.toHttp2Headers());
        const packed = String(error.metadata.get('grpc-status-details-bin')[0]);
        assert.doesNotMatch(packed + trailers, INTERNALS);
        assert.equal(lineOf((id) => packed.includes(id))?.err?.code, '42703');
      } finally {
        await service.sql(`alter table stint.${table} rename column broken to ${column}`);
      }
    });
  }

  it('is gone with its cause', async () => {
    assert.equal((await rest.get('/v1/queues/known/jobs')).status, 200);
    assert.equal((await rest.post('/v1/queues/known/lease', {})).body.jobs.length, 1);
  });
});
