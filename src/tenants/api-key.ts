import { type Static, Type } from 'typebox';
import { Timestamp } from '../core/wire.js';

/** What a tenant's key may be allowed; `admin` never is. */
export const TENANT_SCOPES = ['enqueue', 'work', 'read', 'manage', 'tick'] as const;

export const KeyScope = Type.Enum([...TENANT_SCOPES]);

export const keyFields = {
  id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  scopes: Type.Array(KeyScope),
  createdAt: Timestamp(),
  expiresAt: Type.Optional(Timestamp({ description: 'From then on it is refused.' })),
  revokedAt: Type.Optional(Timestamp()),
};

/** An API key without its secret, which is shown once, by the call that makes it. */
export const ApiKey = Type.Object(keyFields);
export type ApiKey = Static<typeof ApiKey>;

/** A key as statements select it. */
export interface ApiKeyRow {
  readonly id: string;
  readonly name: string;
  readonly scopes: (typeof TENANT_SCOPES)[number][];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

export function toApiKey(row: ApiKeyRow): ApiKey {
  return { ...row, expiresAt: row.expiresAt ?? undefined, revokedAt: row.revokedAt ?? undefined };
}
