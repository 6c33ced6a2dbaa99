import { ServiceError } from '../errors.js';
import type { Connections, Statement } from './pool.js';

const WITHIN_MS = 2_000;

/** Whether the database takes writes: after a failover it may answer every read and store nothing (C29). */
export async function checkWritable(
  connections: Connections,
): Promise<{ readonly ok: boolean; readonly detail: string }> {
  try {
    const [row] = await within(connections.query<{ readOnly: boolean }>(READ_ONLY));
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

// Reads two settings.
const READ_ONLY: Statement = {
  name: 'read-only',
  text: `select pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as "readOnly"`,
};
