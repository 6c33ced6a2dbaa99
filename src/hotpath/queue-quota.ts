import type { Connection, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';

export interface QueueQuota {
  readonly tenantId: string;
  /** How many queues the tenant may have; any number without. */
  readonly most: number | undefined;
}

/**
 * Throws QUOTA_EXCEEDED when the queues of these names would be more than the tenant may have; those that exist are no
 * more. Within a transaction that then makes them: whoever makes one meanwhile waits for its end.
 */
export async function refuseBeyond(
  connection: Connection,
  { tenantId, most }: QueueQuota,
  names: readonly string[],
): Promise<void> {
  if (most === undefined) return;
  await connection.query(LOCK, [tenantId]);
  const [found] = await connection.query<{ queues: number; known: number }>(COUNT, [tenantId, names]);
  if (found!.queues + names.length - found!.known > most && found!.known < names.length) {
    throw new ServiceError('QUOTA_EXCEEDED', `the tenant may have ${most} queue${most === 1 ? '' : 's'}`, {
      retryAfter: 5,
    });
  }
}

// A lock of its own kind: nobody who reads or references the tenant's row waits for it.
const LOCK: Statement = {
  name: 'queue-quota-lock',
  text: `select pg_advisory_xact_lock(hashtextextended($1::text, 20))`,
};

// Walks queue_name within the tenant.
const COUNT: Statement = {
  name: 'queue-quota-count',
  text: `select count(*)::int as queues, (count(*) filter (where name = any($2::text[])))::int as known
from queue
where tenant_id = $1::uuid and closed_at is null`,
};
