import type { CallerWatch } from '../tenants/caller-watch.js';
import type { Task } from './runner.js';

/**
 * Ends parked leases and streams whose credential has ended. An instance that revokes or suspends says so to the others at once; this
 * finds what was not heard, and what has expired, so that it takes effect within 5 s in any case: a call may begin to wait by an answer
 * that is 2 s old (look-ups.ts), and is looked at again within 2.2 s more.
 */
export function createWatchCallers(watch: CallerWatch): Task {
  return {
    name: 'watch-callers',
    every: 2_000,
    run: async () => ({ counts: { ended: await watch.check() } }),
  };
}
