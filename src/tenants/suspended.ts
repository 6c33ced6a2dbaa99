import { ServiceError } from '../errors.js';

/** What callers of a suspended tenant are told. */
export function suspended(): ServiceError {
  return new ServiceError('PERMISSION_DENIED', 'the tenant is suspended');
}
