import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Window } from '../../src/grpc/window.js';
import { until } from '../helpers/service.js';

it('a lease that is shorter than those before it frees its credit in its own time', async () => {
  let told = 0;
  const window = new Window(() => (told += 1));
  window.credits = 3;
  window.hold('long', 60_000);
  window.hold('short', 60);
  window.hold('longer', 90_000);
  window.extend('longer', 70);
  assert.equal(window.free, 0);
  await until('both short ones have run out', () => window.free === 2, 2_000);
  assert.ok(told > 0);
  window.close();
});
