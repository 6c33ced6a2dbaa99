import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Context } from '../../src/core/operation.js';
import { openRaw, send, startToy, type Toy, until } from './toy-service.js';

const WAIT = 'POST /v1/wait HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 2\r\n\r\n{}';

function untilGone({ departure }: Context<Toy>): Promise<void> {
  return new Promise((resolve) => departure.listen(resolve));
}

test('C17: an operation hears at once that its waiting client has hung up or been reset', async (t) => {
  const { toy, port } = await startToy(t);
  toy.onWait = untilGone;
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
    toy.departures.length = 0;
    const raw = await openRaw(port);
    raw.socket.write(WAIT);
    await until('the operation to wait', () => toy.departures.length === 1);
    assert.equal(toy.departures[0]!.happened, false);
    raw.socket[leave]();
    await until(`abort after ${leave}`, () => toy.departures[0]!.happened, 1);
  }
});

test('C17: a client that goes between the operation and the write of its answer tells of its departure', async (t) => {
  const { toy, port } = await startToy(t);
  const raw = await openRaw(port);
  // The client is gone while the operation runs, and the operation answers before the server has heard of it.
  toy.onWait = () => {
    raw.socket.resetAndDestroy();
    return Promise.resolve();
  };
  raw.socket.write(WAIT);
  await until('abort', () => toy.departures[0]?.happened === true, 1);
});

test('C17: every request pipelined on a lost connection is aborted', async (t) => {
  const { toy, port } = await startToy(t);
  toy.onWait = untilGone;
  const raw = await openRaw(port);
  raw.socket.write(WAIT + WAIT + WAIT);
  await until('three operations to wait', () => toy.departures.length === 3);
  raw.socket.destroy();
  await until('three aborts', () => toy.departures.every(({ happened }) => happened), 1);
});

test('an answer that was handed over is not aborted when its connection closes later', async (t) => {
  const { toy, port } = await startToy(t);
  assert.equal((await send(port, 'POST /v1/wait', '{}', { headers: { connection: 'close' } })).status, 200);
  const raw = await openRaw(port);
  raw.socket.write(WAIT);
  await until('an answer', () => raw.received.includes('{"jobs":[]}'));
  raw.socket.destroy();
  await send(port, 'POST /v1/wait', '{}');
  assert.deepEqual(
    toy.departures.map(({ happened }) => happened),
    [false, false, false],
  );
});

test('C82: calls whose client has gone are counted as such', async (t) => {
  const { toy, port, metrics } = await startToy(t);
  toy.onWait = untilGone;
  const raw = await openRaw(port);
  raw.socket.write(WAIT);
  await until('the operation to wait', () => toy.departures.length === 1);
  raw.socket.destroy();
  const counted = 'stint_operations_total{operation="Wait",transport="http",code="CLIENT_CLOSED"} 1';
  await until('the count', async () => (await metrics.render()).body.includes(counted), 2);
});

test('an answer made of an output that cannot be written tells of its departure, since the caller will not have it', async (t) => {
  const { toy, port } = await startToy(t, {
    invoke: (_operation, call) => {
      toy.departures.push(call.departure);
      return Promise.resolve({ jobs: 'not a list' });
    },
  });
  assert.equal((await send(port, 'POST /v1/wait', '{}')).status, 500);
  assert.equal(toy.departures[0]!.happened, true);
});
