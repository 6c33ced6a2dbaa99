import { randomBytes } from 'node:crypto';

const PROCESS = randomBytes(9).toString('base64url');
let calls = 0;

/** An id that no other call has, of this process or another: 72 random bits of the process and a number. */
export function createRequestId(): string {
  calls += 1;
  return `${PROCESS}-${calls.toString(36)}`;
}
