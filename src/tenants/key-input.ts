import { type Static, type TObject, Type } from 'typebox';
import { KeyLimits } from '../core/limits.js';
import { givenName, idOrName } from '../core/names.js';
import { QueuePattern } from '../core/queue-patterns.js';
import { Duration, Timestamp } from '../core/wire.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { KeyScope } from './api-key.js';

const DAY_MS = 86_400_000;
const DEFAULT_OVERLAP_MS = DAY_MS;

export const plainNewKeyFields = {
  name: givenName('Not the name of another key that is not revoked.'),
  expiresAt: Type.Optional(Timestamp({ description: 'In the future. Without it the key does not expire.' })),
};

/** What a new key of a tenant is made of. */
export const newKeyFields = {
  ...plainNewKeyFields,
  scopes: Type.Array(KeyScope, { minItems: 1, uniqueItems: true }),
  queues: Type.Optional(
    Type.Array(QueuePattern, {
      minItems: 1,
      maxItems: 100,
      uniqueItems: true,
      description:
        'The only queues that it may use: names, or beginnings of names with `*`, as `billing-*`. All without.',
    }),
  ),
  limits: Type.Optional(KeyLimits),
};
export type NewKeyFields = Static<TObject<typeof newKeyFields>>;

export const whichTenant = { tenant: idOrName('Id or name of the tenant.') };
export const whichKey = { key: idOrName('Id of the key, or its name while it is not revoked.') };

export const overlapField = {
  overlap: Type.Optional(
    Duration({
      minimum: 0,
      maximum: 30 * DAY_MS,
      description: 'How long the secret of before goes on working. Default 24h; 0s ends it at once.',
    }),
  ),
};

/** The overlap asked for, in milliseconds. */
export function overlapOf({ overlap = DEFAULT_OVERLAP_MS }: { readonly overlap?: number | undefined }): number {
  return overlap;
}

/** Throws INVALID_ARGUMENT when the key would have expired already. */
export function checkExpiry({ clock }: Engine, expiresAt: number | undefined): void {
  if (expiresAt !== undefined && expiresAt <= clock.now()) throw invalidField('expiresAt', 'must be in the future');
}
