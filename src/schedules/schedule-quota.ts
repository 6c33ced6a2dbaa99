import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';

/**
 * Throws QUOTA_EXCEEDED when a schedule of that name would be one more than the tenant may have; any number without `most`. Within a
 * transaction that then makes it: whoever makes one meanwhile waits for its end.
 */
export async function refuseScheduleBeyond(
  connection: Connection,
  { tenantId, most }: { readonly tenantId: string; readonly most: number | undefined },
  name: string,
): Promise<void> {
  if (most === undefined) return;
  await connection.query(LOCK, [tenantId]);
  const [found] = await connection.query<{ schedules: number; known: boolean }>(COUNT, [tenantId, name]);
  if (found!.known || found!.schedules < most) return;
  throw new ServiceError('QUOTA_EXCEEDED', `the tenant may have ${most} schedule${most === 1 ? '' : 's'}`, {
    retryAfter: 5,
  });
}

// A lock of its own kind: nobody who reads or references the tenant's row waits for it.
const LOCK: Statement = {
  name: 'schedule-quota-lock',
  text: `select pg_advisory_xact_lock(hashtextextended($1::text, 21))`,
};

// Walks the unique index on (tenant_id, name) within the tenant.
const COUNT: Statement = {
  name: 'schedule-quota-count',
  text: `select count(*)::int as schedules, coalesce(bool_or(name = $2), false) as known
from schedule
where tenant_id = $1::uuid`,
};
