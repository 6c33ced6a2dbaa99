import { v7 } from 'uuid';
import type { KeyLimits } from '../core/limits.js';
import { idAndName } from '../core/names.js';
import type { Scope } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { ApiKeyRow } from './api-key.js';
import { createSecret, hashSecret } from './secret.js';

export interface NewKey {
  /** Null for an administrator's key. */
  readonly tenantId: string | null;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly queues?: readonly string[] | undefined;
  readonly limits?: KeyLimits | undefined;
  /** Microseconds. */
  readonly expiresAt?: number | undefined;
}

/** A key, and its secret, which is kept nowhere else. */
export interface KeyWithSecret {
  readonly row: ApiKeyRow;
  readonly secret: string;
}

/** Stores a new key. Throws CONFLICT when the name is taken. */
export async function insertKey(connection: Pick<Connection, 'query'>, key: NewKey): Promise<KeyWithSecret> {
  const { tenantId, name, scopes, queues, limits = {}, expiresAt } = key;
  const id = v7();
  const secret = createSecret(id);
  const [row] = await connection.query<ApiKeyRow>(CREATE, [
    id,
    tenantId,
    name,
    hashSecret(secret),
    scopes,
    queues ?? null,
    JSON.stringify(limits),
    expiresAt ?? null,
  ]);
  if (row === undefined) throw new ServiceError('CONFLICT', 'there is a key of this name');
  return { row, secret };
}

/** Finds a key of the tenant, or an administrator's, by id or name, locked until the transaction ends. Throws NOT_FOUND. */
export async function lockKey(connection: Connection, tenantId: string | null, key: string): Promise<ApiKeyRow> {
  const [row] = await connection.query<ApiKeyRow>(LOCK, [tenantId, ...idAndName(key)]);
  if (row === undefined) throw new ServiceError('NOT_FOUND', 'no such key');
  return row;
}

/** Revokes a key that is locked; one that is revoked already stays as it is. */
export async function revokeKey(connection: Connection, key: ApiKeyRow): Promise<ApiKeyRow> {
  const [changed] = await connection.query<Pick<ApiKeyRow, 'revokedAt'>>(REVOKE, [key.id]);
  return { ...key, ...changed! };
}

/**
 * Gives a key that is locked a new secret; the one before works for `overlap` milliseconds more, and one before that no more. Throws
 * CONFLICT when the key is revoked.
 */
export async function rotateKey(connection: Connection, key: ApiKeyRow, overlap: number): Promise<KeyWithSecret> {
  if (key.revokedAt !== null) throw new ServiceError('CONFLICT', 'the key is revoked');
  const secret = createSecret(key.id);
  const values = [key.id, hashSecret(secret), overlap];
  const [changed] = await connection.query<Pick<ApiKeyRow, 'previousSecretUntil'>>(ROTATE, values);
  return { row: { ...key, ...changed! }, secret };
}

/** Keys of the tenant, or the administrators', whose ids come after `after`, in the order of their making. */
export function readKeys(
  connection: Pick<Connection, 'query'>,
  page: { readonly tenantId: string | null; readonly after: string; readonly limit: number },
): Promise<ApiKeyRow[]> {
  return connection.query<ApiKeyRow>(LIST, [page.tenantId, page.after, page.limit]);
}

// May run beside itself: of two for one name, the later waits for the earlier and gives way. Gives way too, by the foreign key's lock,
// to a deletion of the tenant.
const CREATE: Statement = {
  name: 'key-create',
  text: `insert into api_key (id, tenant_id, name, secret_hash, scopes, queues, limits, expires_at)
values ($1::uuid, $2::uuid, $3, $4::bytea, $5::text[], $6::text[], $7::jsonb,
  timestamptz 'epoch' + $8::float8 * interval '1 microsecond')
on conflict do nothing
returning id, name, scopes, queues, limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt", null::float8 as "revokedAt",
  null::float8 as "lastUsedAt", null::float8 as "previousSecretUntil"`,
};

// Locks the one row. Indexes: the primary key, api_key_name, api_key_admin_name.
const LOCK: Statement = {
  name: 'key-lock',
  text: `select id, name, scopes, queues, limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt",
  (extract(epoch from revoked_at) * 1000000)::float8 as "revokedAt",
  (extract(epoch from last_used_at) * 1000000)::float8 as "lastUsedAt",
  (extract(epoch from previous_until) * 1000000)::float8 as "previousSecretUntil"
from api_key
where id = (
    select id from api_key where id = $2::uuid
    union all
    select id from api_key where tenant_id = $1::uuid and name = $3::text and revoked_at is null
    union all
    select id from api_key where $1::uuid is null and tenant_id is null and name = $3::text and revoked_at is null)
  and tenant_id is not distinct from $1::uuid
for no key update`,
};

// The row is locked by the transaction.
const REVOKE: Statement = {
  name: 'key-revoke',
  text: `update api_key
set revoked_at = coalesce(revoked_at, clock_timestamp())
where id = $1::uuid
returning (extract(epoch from revoked_at) * 1000000)::float8 as "revokedAt"`,
};

// The row is locked by the transaction.
const ROTATE: Statement = {
  name: 'key-rotate',
  text: `update api_key
set secret_hash = $2::bytea, previous_hash = secret_hash,
  previous_until = clock_timestamp() + $3::float8 * interval '1 millisecond'
where id = $1::uuid
returning (extract(epoch from previous_until) * 1000000)::float8 as "previousSecretUntil"`,
};

// Walks api_key_tenant; ids are UUID v7, so their order is that of creation. Administrators' keys are few.
const LIST: Statement = {
  name: 'keys-list',
  text: `select id, name, scopes, queues, limits, (extract(epoch from created_at) * 1000000)::float8 as "createdAt",
  (extract(epoch from expires_at) * 1000000)::float8 as "expiresAt",
  (extract(epoch from revoked_at) * 1000000)::float8 as "revokedAt",
  (extract(epoch from last_used_at) * 1000000)::float8 as "lastUsedAt",
  (extract(epoch from previous_until) * 1000000)::float8 as "previousSecretUntil"
from api_key
where id = any(array(
  select id from (
    (select id from api_key where tenant_id = $1::uuid and id > $2::uuid order by id limit $3::int)
    union all
    (select id from api_key where $1::uuid is null and tenant_id is null and id > $2::uuid order by id limit $3::int)) page))
order by id`,
};
