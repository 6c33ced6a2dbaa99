import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { overGrpc } from '../helpers/grpc-client.js';
import { grpcRequest } from '../helpers/grpc-request.js';
import type { Answer, Client } from '../helpers/service.js';
import { operations } from '../../src/operations.js';

const UUID = '018f0000-0000-7000-8000-000000000000';

/** The client of the suites, when REST answers everything like this. No call goes over gRPC: nobody listens there. */
function answering(status: number, body: object): Client {
  const answer: Answer = { status, headers: new Headers(), text: JSON.stringify(body), body };
  const rest = { base: '', key: 'k', request: () => Promise.resolve(answer) } as unknown as Client;
  return overGrpc(rest, '127.0.0.1:1');
}

const jobs = (client: Client, body: unknown, init?: RequestInit) => client.post('/v1/queues/q/jobs', body, init);

describe('the client of the behaviour suites over gRPC', () => {
  it('has a call for every route of the table', () => {
    for (const { name, http } of operations) {
      for (const { method, path } of http) {
        const target = path.replace(':id', UUID).replace(/:\w+/g, 'some');
        const call = grpcRequest({ method, target, body: method === 'GET' ? undefined : {}, init: {} });
        assert.equal(typeof call === 'string' ? call : undefined, undefined, `${name}: ${method} ${path}`);
      }
    }
  });

  it('fails when REST understands what was not translated', async () => {
    const understood = answering(200, {});
    const untranslated = /is not translated for gRPC/;
    await assert.rejects(jobs(understood, { newField: 1 }), untranslated);
    await assert.rejects(jobs(understood, { priority: '1' }), untranslated);
    await assert.rejects(jobs(understood, { headers: [] }), untranslated);
    await assert.rejects(jobs(understood, '{}', { headers: { 'content-type': 'application/cbor' } }), untranslated);
    await assert.rejects(understood.post('/v1/queues/q/jobs?kind=mail', {}), untranslated);
    await assert.rejects(understood.post('/v1/queues/q/new-verb', {}), untranslated);
    for (const code of ['NOT_FOUND', 'PERMISSION_DENIED', 'CONFLICT'])
      await assert.rejects(jobs(answering(400, { code }), { newField: 1 }), untranslated);
  });

  it('has REST refuse what no message can say, and show its pages', async () => {
    const refusing = answering(400, { code: 'INVALID_ARGUMENT' });
    assert.equal((await jobs(refusing, { newField: 1 })).status, 400);
    assert.equal((await answering(404, {}).get('/v1/nothing')).status, 404);
    assert.equal((await answering(200, {}).get('/metrics')).status, 200);
    const partly = answering(200, { results: [{ outcome: 'OK' }, { outcome: 'INVALID' }] });
    assert.equal((await partly.post('/v1/leases/ack', { items: [{ leaseToken: 1 }] })).status, 200);
    const kept = answering(200, { outcome: 'OK' });
    assert.equal((await kept.post('/v1/leases/nack', { items: [{ leaseToken: 'x', error: 'text' }] })).status, 200);
  });
});
