import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { v7 } from 'uuid';
import { ServiceError } from '../../src/errors.js';
import { CallerWatch } from '../../src/tenants/caller-watch.js';
import type { KnownKeys, Verdict } from '../../src/tenants/known-keys.js';
import type { KnownTenants } from '../../src/tenants/known-tenants.js';
import { callerOf } from '../helpers/context.js';

const TENANT = { id: v7(), name: 'acme', autoCreateQueues: true, limits: {} };
const REFUSED = new ServiceError('UNAUTHENTICATED', 'the API key is unknown, expired or revoked');

/** A watch whose database answers as it is told. */
function watchOver(answer: () => Promise<Verdict>): { readonly watch: CallerWatch; readonly asked: () => number } {
  let asked = 0;
  const again = (): Promise<Verdict> => {
    asked += 1;
    return answer();
  };
  const known = { again } as unknown as KnownKeys & KnownTenants;
  return { watch: new CallerWatch(known, known), asked: () => asked };
}

describe('the watch over callers', () => {
  test('tells each that waits once, with the reason, and those no more that have left', async () => {
    const { watch } = watchOver(() => Promise.resolve(REFUSED));
    const caller = callerOf(TENANT);
    const told: string[] = [];
    const leave = (['a', 'b', 'c'] as const).map((name) =>
      watch.watch(caller, (error) => {
        told.push(`${name}: ${error.message}`);
        // Whoever is told leaves, while the others are still to be told.
        leave[0]!();
        leave[1]!();
      }),
    );
    leave[2]!();
    assert.equal(await watch.check(), 2);
    assert.deepEqual(told, [`a: ${REFUSED.message}`, `b: ${REFUSED.message}`]);
    assert.equal(await watch.check(), 0);
  });

  test('asks once for all that wait with one credential, and nothing for those that have left', async () => {
    const caller = callerOf(TENANT);
    const { watch, asked } = watchOver(() => Promise.resolve(caller));
    const leave = Array.from({ length: 100 }, () => watch.watch(caller, () => assert.fail('it may stay')));
    assert.equal(await watch.check(), 0);
    assert.equal(asked(), 1);
    leave.forEach((each) => each());
    await watch.check();
    assert.equal(asked(), 1);
  });

  test('ends nobody while the database is away', async () => {
    const { watch } = watchOver(() => Promise.reject(new ServiceError('UNAVAILABLE', 'away')));
    watch.watch(callerOf(TENANT), () => assert.fail('it may stay'));
    await assert.rejects(watch.check(), { code: 'UNAVAILABLE' });
    watch.checkSoon();
    await new Promise((resolve) => setImmediate(resolve));
  });

  test('looks once more when something changes while it looks, and once for many changes', async () => {
    let answer!: (verdict: Verdict) => void;
    const { watch, asked } = watchOver(() => new Promise((resolve) => (answer = resolve)));
    const caller = callerOf(TENANT);
    const ended = new Promise<ServiceError>((resolve) => void watch.watch(caller, resolve));
    watch.checkSoon();
    assert.equal(asked(), 1);
    for (let changes = 0; changes < 5; changes += 1) watch.checkSoon();
    answer(caller);
    while (asked() < 2) await new Promise((resolve) => setImmediate(resolve));
    answer(REFUSED);
    assert.equal(await ended, REFUSED);
    assert.equal(asked(), 2);
  });

  test('ends a token that has run out without asking anybody, and leaves the root key alone', async () => {
    const { watch, asked } = watchOver(() => Promise.resolve(REFUSED));
    const told: string[] = [];
    const expired = callerOf(TENANT, { kind: 'token', expiresAt: Date.now() - 1 });
    watch.watch(expired, ({ code, message }) => told.push(`${code} ${message}`));
    watch.watch(callerOf(undefined, { kind: 'root' }), () => assert.fail('the root key stays'));
    assert.equal(await watch.check(), 1);
    assert.deepEqual(told, ['UNAUTHENTICATED the token has expired']);
    assert.equal(asked(), 0);
  });
});
