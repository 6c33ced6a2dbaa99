import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestService } from '../helpers/service.js';

test('these suites speak the transport that they are run over', async () => {
  const service = await startTestService();
  const client = await service.tenant();
  assert.equal((await client.post('/v1/queues/mail/jobs', {})).status, 201);
  const { text } = await client.get('/metrics');
  const transport = process.env['STINT_TEST_TRANSPORT'] ?? 'http';
  const calls = text.split('\n').filter((line) => line.startsWith('stint_operations_total{operation="Enqueue",'));
  assert.deepEqual(calls, [`stint_operations_total{operation="Enqueue",transport="${transport}",code="OK"} 1`]);
  await service.stop();
});
