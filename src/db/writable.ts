import { ServiceError } from '../errors.js';
import type { Connections, Statement } from './pool.js';
import type { SchemaFloor } from './schema-floor.js';

const WITHIN_MS = 2_000;

/**
 * Whether the database takes writes, and this version's: after a failover it may answer every read and store nothing (C29), and a newer
 * version may have changed it.
 */
export async function checkWritable(
  connections: Connections,
  schema: Pick<SchemaFloor, 'seen'>,
): Promise<{ readonly ok: boolean; readonly detail: string }> {
  try {
    const [row] = await within(connections.query<{ readOnly: boolean; floor: number }>(READ_ONLY));
    const outgrown = schema.seen(row!.floor);
    if (outgrown !== undefined) return { ok: false, detail: outgrown.message };
    return row!.readOnly ? { ok: false, detail: 'the database is read-only' } : { ok: true, detail: 'ok' };
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    return { ok: false, detail: error.message };
  }
}

async function within<T>(query: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ServiceError('UNAVAILABLE', 'the database does not answer')), WITHIN_MS);
  });
  query.catch(() => undefined);
  return Promise.race([query, late]).finally(() => clearTimeout(timer));
}

// Reads two settings, and the few rows of the ledger.
const READ_ONLY: Statement = {
  name: 'read-only',
  text: `select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as "readOnly",
  (select max(coalesce(compatible_from, number)) from migration) as floor`,
};
