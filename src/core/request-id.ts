import { randomBytes } from 'node:crypto';

const PROCESS = randomBytes(9).toString('base64url');
let calls = 0;

const PLAIN = /^[\x21-\x7e]{1,128}$/;

/** A call's own id when it is a plain one, so that a caller can follow it into the service's log; else a new one. */
export function requestIdFrom(given: unknown): string {
  return typeof given === 'string' && PLAIN.test(given) ? given : createRequestId();
}

/** An id that no other call has, of this process or another: 72 random bits of the process and a number. */
function createRequestId(): string {
  calls += 1;
  return `${PROCESS}-${calls.toString(36)}`;
}
