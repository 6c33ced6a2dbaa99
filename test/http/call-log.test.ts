import assert from 'node:assert/strict';
import { after, before, describe, it, test } from 'node:test';
import { CallLog, type LoggedCall } from '../../src/observability/call-log.js';
import { createLog } from '../../src/observability/log.js';
import { grpcClient } from '../helpers/grpc.js';
import { clientFor, startTestService, type TestService } from '../helpers/service.js';

type Line = Readonly<Record<string, unknown>>;

function capture(level: string) {
  const lines: Line[] = [];
  const log = createLog(level, { write: (line: string) => void lines.push(JSON.parse(line) as Line) });
  return { log, lines };
}

const CALL: LoggedCall = {
  operation: 'Enqueue',
  call: { requestId: 'r1', transport: 'http' },
  code: 'OK',
  seconds: 0.001,
  tenant: 'acme',
  span: undefined,
  error: undefined,
};

test('a call that went well is a line at debug, a refusal one at info, and what is the service’s fault at warn or error', () => {
  const { log, lines } = capture('debug');
  const calls = new CallLog(log);
  const error = new Error('internal error', { cause: new Error('what it was') });
  for (const code of ['OK', 'CLIENT_CLOSED', 'NOT_FOUND', 'RATE_LIMITED', 'UNAVAILABLE'])
    calls.write({ ...CALL, code });
  calls.write({ ...CALL, code: 'INTERNAL', error });
  calls.write({ ...CALL, code: 'CLIENT_CLOSED', error });
  assert.deepEqual(
    lines.map(({ level, outcome, msg }) => [level, outcome, msg]),
    [
      ['debug', 'OK', 'operation'],
      ['debug', 'CLIENT_CLOSED', 'operation'],
      ['info', 'NOT_FOUND', 'operation refused'],
      ['info', 'RATE_LIMITED', 'operation refused'],
      ['warn', 'UNAVAILABLE', 'operation refused'],
      ['error', 'INTERNAL', 'operation failed'],
      ['error', 'CLIENT_CLOSED', 'operation failed'],
    ],
  );
  assert.equal((lines.at(-1)!['err'] as Error).message, 'what it was');
});

test('a flood of refusals is twenty lines a second, and the next line tells how many were left out', (t) => {
  const { log, lines } = capture('info');
  const calls = new CallLog(log);
  let now = 7_000;
  t.mock.method(performance, 'now', () => now);
  for (let n = 0; n < 500; n += 1) calls.write({ ...CALL, code: n % 2 === 0 ? 'UNAUTHENTICATED' : 'UNAVAILABLE' });
  for (let n = 0; n < 50; n += 1) calls.write({ ...CALL, code: 'INTERNAL', error: new Error('x') });
  assert.deepEqual([lines.length, lines.filter(({ msg }) => msg === 'operation failed').length], [70, 50]);
  now += 1_000;
  calls.write({ ...CALL, code: 'UNAUTHENTICATED' });
  calls.write({ ...CALL, code: 'UNAUTHENTICATED' });
  assert.deepEqual(
    lines.slice(-2).map(({ leftOut }) => leftOut),
    [480, undefined],
  );
  const { log: quiet, lines: none } = capture('error');
  for (const code of ['OK', 'NOT_FOUND', 'UNAVAILABLE']) new CallLog(quiet).write({ ...CALL, code });
  assert.deepEqual(none, []);
});

describe('the log of calls', () => {
  const { log, lines } = capture('debug');
  let service: TestService;
  let key: string;

  before(async () => {
    service = await startTestService({}, log);
    key = (await service.tenant({ name: 'acme' })).key;
  });

  after(() => service.stop());

  const lineOf = (requestId: string): Line => lines.find((line) => line['requestId'] === requestId)!;

  it('has request id, tenant, operation, outcome, transport and time over REST', async () => {
    const post = (id: string, body: object, as = key) =>
      clientFor(service.base, as).request('POST', '/v1/queues/mail/jobs', body, { headers: { 'x-request-id': id } });
    await post('rest-1', { kind: 'welcome' });
    await post('rest-2', { kind: 7 });
    await post('rest-3', {}, 'no-such-key');
    const { time, pid, hostname, seconds, ...line } = lineOf('rest-1');
    assert.ok(typeof seconds === 'number' && seconds > 0 && seconds < 5, String(seconds));
    assert.deepEqual([typeof time, typeof pid, typeof hostname], ['string', 'number', 'string']);
    assert.deepEqual(line, {
      level: 'debug',
      operation: 'Enqueue',
      transport: 'http',
      requestId: 'rest-1',
      tenant: 'acme',
      outcome: 'OK',
      msg: 'operation',
    });
    assert.deepEqual([lineOf('rest-2')['outcome'], lineOf('rest-2')['tenant']], ['INVALID_ARGUMENT', 'acme']);
    assert.deepEqual([lineOf('rest-3')['outcome'], lineOf('rest-3')['tenant']], ['UNAUTHENTICATED', undefined]);
    assert.deepEqual([lineOf('rest-2')['level'], lineOf('rest-3')['level']], ['info', 'info']);
  });

  it('has the same over gRPC', async () => {
    const client = grpcClient(service.grpc, key, { 'x-request-id': 'grpc-1' });
    await client.call('Jobs', 'Lease', { queue: 'mail' });
    client.close();
    const { operation, transport, tenant, outcome } = lineOf('grpc-1');
    assert.deepEqual([operation, transport, tenant, outcome], ['Lease', 'grpc', 'acme', 'OK']);
  });
});
