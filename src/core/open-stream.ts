import type { ServiceError } from '../errors.js';
import type { Admission } from './admission.js';
import type { Admit, Admitted, Approach } from './admit.js';

/**
 * The door for a stream, which then calls operations: it is admitted and counted once, as long as it is open.
 *
 * @param operation whose scopes the stream needs
 * @param end told when the caller's credential ends, with what to tell the caller
 * @returns what to call when the stream is over
 * @throws ServiceError UNAUTHENTICATED, PERMISSION_DENIED, RATE_LIMITED, QUOTA_EXCEEDED, UNAVAILABLE
 */
export type OpenStream = (
  operation: Admitted,
  approach: Approach,
  end: (error: ServiceError) => void,
) => Promise<() => void>;

export function createOpenStream({
  admit,
  admission,
}: {
  readonly admit: Admit;
  readonly admission: Admission;
}): OpenStream {
  return async (operation, approach, end) => admission.begin(await admit(operation, approach), 'streams', end);
}
