import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createRefusals } from '../../src/audit/create-refusals.js';
import type { Caller } from '../../src/core/operation.js';
import { operations } from '../../src/operations.js';
import { callerOf } from '../helpers/context.js';
import { clientFor, startTestService, type TestService, until } from '../helpers/service.js';
import { done, newWorld } from './acts.js';

const MINUTE = 60_000;
const operation = (name: string) => operations.find((each) => each.name === name)!;
const putQueue = operation('PutQueue');
const call = { requestId: 'r', address: '127.0.0.1' };

function recorder(fails = false) {
  const seen = { rows: [] as string[], counted: [] as boolean[], warned: [] as string[] };
  let at = 0;
  const refused = createRefusals({
    connections: {
      query: (_statement, values) => {
        if (fails) return Promise.reject(new Error('away'));
        seen.rows.push(String(values?.[6]));
        return Promise.resolve([]);
      },
    },
    onRefused: (recorded) => void seen.counted.push(recorded),
    log: { info: () => undefined, warn: (_fields, message) => void seen.warned.push(message) },
    now: () => at,
  });
  return { ...seen, refused, pass: (milliseconds: number) => (at += milliseconds) };
}

const callerCalled = (id: string): Caller => callerOf(undefined, { id });

test('ten refusals a minute of one credential are written, in any minute; the others are only counted', () => {
  const { refused, rows, counted, pass } = recorder();
  const one = callerCalled('one');
  for (let n = 0; n < 100; n += 1) refused(putQueue, one, call);
  assert.equal(rows.length, 10);
  assert.equal(counted.filter((recorded) => !recorded).length, 90);
  refused(putQueue, callerCalled('two'), call);
  assert.equal(rows.at(-1), 'two');
  pass(MINUTE / 2);
  refused(putQueue, one, call);
  assert.equal(rows.length, 11);
  pass(MINUTE / 2);
  for (let n = 0; n < 100; n += 1) refused(putQueue, one, call);
  assert.equal(rows.length, 21);
});

test('credentials that are remembered are bounded: beyond, they are only counted, until a minute has passed', () => {
  const { refused, rows, pass } = recorder();
  for (let n = 0; n < 10_100; n += 1) refused(putQueue, callerCalled(`c${n}`), call);
  assert.equal(rows.length, 10_000);
  pass(MINUTE);
  for (let n = 0; n < 100; n += 1) refused(putQueue, callerCalled(`d${n}`), call);
  assert.equal(rows.length, 10_100);
});

test('refused work and refused reading are not written', () => {
  const { refused, rows, counted } = recorder();
  for (const name of ['Enqueue', 'Lease', 'Ack', 'GetQueue', 'ListAuditEvents', 'UpdateJob', 'CancelJob']) {
    refused(operation(name), callerCalled('one'), call);
  }
  assert.deepEqual([rows, counted], [[], []]);
});

test('a refusal that cannot be written is told to the log and disturbs nobody', async () => {
  const { refused, warned } = recorder(true);
  refused(putQueue, callerCalled('one'), call);
  await until('the failure is logged', () => warned.length === 1);
});

let service: TestService;
before(async () => (service = await startTestService()));
after(() => service.stop());

test('who is not allowed to finds 403, nothing done, and itself in the log of its own tenant', async () => {
  const [acme, globex] = [await newWorld(service), await newWorld(service)];
  const base = `/v1/admin/tenants/${acme.tenant.id}/keys`;
  const bound = (await done(service.admin.post(base, { name: 'bound', scopes: ['manage'], queues: ['a*'] }))).body;
  const worker = (await done(service.admin.post(base, { name: 'worker', scopes: ['work'] }))).body;
  const refused = [
    await clientFor(service.base, worker.secret).put('/v1/queues/mail', {}),
    await clientFor(service.base, bound.secret).put('/v1/queues/mail', {}),
    await acme.own.post(`/v1/admin/tenants/${globex.tenant.id}/suspend`),
    await clientFor(service.base, bound.secret).post('/v1/keys', { name: 'more', scopes: ['enqueue'] }),
  ];
  assert.deepEqual(
    refused.map(({ status }) => status),
    [403, 403, 403, 403],
  );
  const events = await until('four refusals are written', async () => {
    const { body } = await done(acme.own.get('/v1/audit'));
    const found = body.events.filter((event: any) => event.refused);
    return found.length === 4 ? found : undefined;
  });
  const shown = (event: any): string => `${event.actor.name} ${event.action} ${event.requestId}`;
  const id = (index: number): string => refused[index]!.headers.get('x-request-id')!;
  assert.deepEqual(
    events.map(shown).toSorted(),
    [
      `worker PutQueue ${id(0)}`,
      `bound PutQueue ${id(1)}`,
      `all SuspendTenant ${id(2)}`,
      `bound CreateOwnKey ${id(3)}`,
    ].toSorted(),
  );
  for (const { target, before: was, after: became, address } of events) {
    assert.deepEqual([target, was, became, address], ['', undefined, undefined, '127.0.0.1']);
  }
  assert.equal((await acme.own.get('/v1/queues/mail')).status, 404);
  const ofOthers = (await done(globex.own.get('/v1/audit'))).body.events;
  assert.ok(ofOthers.every((event: any) => !event.refused));
});
