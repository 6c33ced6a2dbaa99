import type { Caller } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { NewKeyFields } from './key-input.js';

/** What a key may do. */
export type KeyRights = Pick<NewKeyFields, 'scopes' | 'queues' | 'expiresAt' | 'limits'>;

/** The one limit of which two keys do not have twice as much. */
const SHARED: keyof Caller['limits'] = 'payloadBytes';

/**
 * A caller never makes a key that may do more than itself or lasts longer, nor gets hold of one; and one that may do only so much makes
 * none, since with it the caller could do twice as much. Throws PERMISSION_DENIED naming what is beyond the caller's own rights.
 * @param key with its id, when it exists
 */
export function refuseBeyond(caller: Caller, key: KeyRights & { readonly id?: string }): void {
  refuseWider(caller, key);
  const addsUp = Object.keys(caller.limits).find((name) => name !== SHARED);
  if (addsUp !== undefined && key.id !== caller.id) {
    throw beyond(`limits.${addsUp}`, 'of the caller: who is bound by it makes no further key, and takes over none');
  }
  const until = caller.expiresAt === undefined ? undefined : Math.round(caller.expiresAt * 1_000);
  if (until !== undefined && !(key.expiresAt !== undefined && key.expiresAt <= until)) {
    throw beyond('expiresAt', 'must not be after the end of the caller’s own credential');
  }
}

/** The same, however long the key lasts: to end one grants nothing, and who leaves soon may do it too. */
export function refuseWider(caller: Caller, key: Omit<KeyRights, 'expiresAt'>): void {
  const scope = key.scopes.find(
    (each) => !caller.scopes.has(each) && !(each === 'read' && caller.scopes.has('manage')),
  );
  if (scope !== undefined) throw beyond('scopes', `holds ${scope}, which the caller does not`);
  const queues = caller.queues;
  if (queues !== undefined) {
    if (key.queues === undefined) throw beyond('queues', 'must be given, since the caller is bound to queues');
    const pattern = queues.beyond(key.queues);
    if (pattern !== undefined) throw beyond('queues', `holds ${pattern}, which is beyond the queues of the caller`);
  }
  for (const [name, most] of Object.entries(caller.limits) as [keyof Caller['limits'], number][]) {
    const limit = key.limits?.[name];
    if (limit === undefined || limit > most) throw beyond(`limits.${name}`, `must be given, and at most ${most}`);
  }
}

function beyond(field: string, message: string): ServiceError {
  return new ServiceError('PERMISSION_DENIED', `${field} ${message}`, { fields: [{ field, message }] });
}
