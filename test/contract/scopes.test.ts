import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { HttpBinding, Scope } from '../../src/core/operation.js';
import { operations } from '../../src/operations.js';
import { type Client, clientFor, startTestService, type TestService } from '../helpers/service.js';
import { assertProblem, UNKNOWN_ID } from './jobs.js';

const SCOPES: readonly Scope[] = ['enqueue', 'work', 'read', 'manage', 'tick'];
const UNAUTHENTICATED = { status: 401, code: 'UNAUTHENTICATED' };
const DENIED = { status: 403, code: 'PERMISSION_DENIED' };
let service: TestService;
const clients = new Map<Scope, Client>();

before(async () => {
  service = await startTestService();
  for (const scope of SCOPES) clients.set(scope, await service.tenant({ scopes: [scope] }));
});
after(() => service.stop());

function targetOf({ path }: HttpBinding): string {
  return path.replaceAll(':id', UNKNOWN_ID).replaceAll(/:\w+/g, 'some');
}

const routes = operations.flatMap((operation) => operation.http.map((binding) => ({ operation, binding })));

describe('every route', () => {
  for (const { operation, binding } of routes) {
    const target = targetOf(binding);
    const call = (client: Client) => client.request(binding.method, target, binding.method === 'GET' ? undefined : {});
    const name = `${binding.method} ${binding.path}`;

    test(`${name} is 401 without a credential and with one that nobody made`, async () => {
      const bare = await fetch(service.base + target, { method: binding.method });
      assert.equal(bare.status, 401);
      assert.match(bare.headers.get('www-authenticate') ?? '', /^Bearer/);
      assert.equal(((await bare.json()) as { code: string }).code, 'UNAUTHENTICATED');
      assertProblem(await call(clientFor(service.base, 'stint_nobody')), UNAUTHENTICATED);
    });

    test(`${name} is 403 for every scope but its own`, async () => {
      const own = new Set<Scope>(operation.scopes);
      if (own.has('read')) own.add('manage');
      for (const scope of SCOPES.filter((one) => !own.has(one))) assertProblem(await call(clients.get(scope)!), DENIED);
      for (const scope of SCOPES.filter((one) => own.has(one))) {
        const { status } = await call(clients.get(scope)!);
        assert.ok(status !== 401 && status !== 403 && status < 500, `${scope}: ${status}`);
      }
    });

    test(`${name} is ${operation.scopes.includes('admin') ? 'open to' : '403 for'} an admin key`, async () => {
      const answer = await call(service.admin);
      if (operation.scopes.includes('admin')) assert.ok(answer.status !== 403 && answer.status < 500, answer.text);
      else assertProblem(answer, DENIED);
    });
  }
});
