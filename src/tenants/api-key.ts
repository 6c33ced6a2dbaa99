import { type Static, Type } from 'typebox';
import { compileEncoder } from '../core/encode.js';
import { KeyLimits } from '../core/limits.js';
import type { Scope } from '../core/operation.js';
import { QueuePattern } from '../core/queue-patterns.js';
import { Timestamp } from '../core/wire.js';

/** What a tenant's key may be allowed; `admin` never is. */
export const TENANT_SCOPES = ['enqueue', 'work', 'read', 'manage', 'tick'] as const;

export const KeyScope = Type.Enum([...TENANT_SCOPES]);

/** What every key shows. */
export const plainKeyFields = {
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  createdAt: Timestamp(),
  expiresAt: Type.Optional(Timestamp({ description: 'From then on it is refused.' })),
  revokedAt: Type.Optional(Timestamp()),
  lastUsedAt: Type.Optional(Timestamp({ description: 'To the minute.' })),
  previousSecretUntil: Type.Optional(
    Timestamp({ description: 'When the secret before the last rotation stops working, or has stopped.' }),
  ),
};

/** What a tenant's key shows. */
export const keyFields = {
  ...plainKeyFields,
  scopes: Type.Array(KeyScope),
  queues: Type.Optional(Type.Array(QueuePattern, { description: 'The only queues that it may use.' })),
  limits: KeyLimits,
};

export const secretField = Type.String({ description: 'Shown this once: only a hash of it is kept.' });

/** An API key without its secret, which is shown once, by the call that makes it. */
export const ApiKey = Type.Object(keyFields);
export type ApiKey = Static<typeof ApiKey>;

/** The same with its secret. */
export const CreatedKey = Type.Object({ ...keyFields, secret: secretField });
export type CreatedKey = Static<typeof CreatedKey>;

/** An administrator's key: of no tenant, with the scope `admin`. */
export const AdminKey = Type.Object(plainKeyFields);
export type AdminKey = Static<typeof AdminKey>;

export const CreatedAdminKey = Type.Object({ ...plainKeyFields, secret: secretField });
export type CreatedAdminKey = Static<typeof CreatedAdminKey>;

/** A key as statements select it. */
export interface ApiKeyRow {
  readonly id: string;
  readonly name: string;
  readonly scopes: Scope[];
  readonly queues: string[] | null;
  readonly limits: KeyLimits;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
  readonly lastUsedAt: number | null;
  readonly previousSecretUntil: number | null;
}

export function toAdminKey(row: ApiKeyRow): AdminKey {
  const { id, name, createdAt, expiresAt, revokedAt, lastUsedAt, previousSecretUntil } = row;
  return {
    id,
    name,
    createdAt,
    expiresAt: expiresAt ?? undefined,
    revokedAt: revokedAt ?? undefined,
    lastUsedAt: lastUsedAt ?? undefined,
    previousSecretUntil: previousSecretUntil ?? undefined,
  };
}

export function toApiKey(row: ApiKeyRow): ApiKey {
  const { scopes, queues, limits } = row;
  return { ...toAdminKey(row), scopes: scopes as ApiKey['scopes'], queues: queues ?? undefined, limits };
}

/** A tenant's key as the audit log shows it: JSON text. */
export const shownApiKey = compileEncoder(ApiKey) as (key: ApiKey) => string;

/** An administrator's key as the audit log shows it. */
export const shownAdminKey = compileEncoder(AdminKey) as (key: AdminKey) => string;
