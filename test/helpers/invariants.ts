import assert from 'node:assert/strict';
import { INVARIANTS } from '../../src/tasks/invariants.js';
import type { TestService } from './service.js';

/** Breaches shown of each rule; one is enough to fail. */
const SHOWN = 5;

/**
 * Holds everything in the database to what must be true between any two statements, whatever the tests before it did. Each
 * rule is one statement, thus one snapshot, so background tasks may run meanwhile.
 */
export async function checkInvariants(service: Pick<TestService, 'sql'>): Promise<void> {
  for (const { rule, statement } of INVARIANTS) {
    const breaches = await service.sql(statement.text, [SHOWN]);
    assert.deepEqual(breaches, [], `an invariant is broken: ${rule}`);
  }
}
