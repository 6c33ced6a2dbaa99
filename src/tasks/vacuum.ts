import type { Connections, Statement } from '../db/pool.js';
import type { Task } from './runner.js';

/** The hot tables, whose dead rows are the service's own to clear away: autovacuum comes too seldom for them. */
const TABLES = ['ready', 'scheduled', 'lease', 'queue_count'];

/**
 * Clears dead rows of the hot tables, on one instance at a time, and only when the oldest transaction has moved since the last
 * pass: otherwise each pass would walk everything for nothing.
 *
 * @param connections without statement timeout
 */
export function vacuumTask(connections: Connections): Task {
  let horizon = '';
  return {
    name: 'vacuum',
    every: 2_000,
    run: async ({ database }) => {
      const [seen] = await database.tasks.query<{ horizon: string; dead: number }>(HORIZON);
      if (seen === undefined || seen.horizon === horizon || seen.dead < WORTH_IT) return { counts: { vacuumed: 0 } };
      const vacuumed = await connections.withConnection(async (connection) => {
        const [lock] = await connection.query<{ mine: boolean }>(LOCK);
        if (lock?.mine !== true) return 0;
        try {
          for (const table of TABLES) await connection.query({ name: `vacuum-${table}`, text: STATEMENTS[table]! });
        } finally {
          await connection.query(UNLOCK);
        }
        return TABLES.length;
      });
      if (vacuumed > 0) horizon = seen.horizon;
      return { counts: { vacuumed } };
    },
  };
}

const WORTH_IT = 1_000;

const STATEMENTS: Readonly<Record<string, string>> = {
  ready: 'vacuum (truncate off, skip_locked on, parallel 0) stint.ready',
  scheduled: 'vacuum (truncate off, skip_locked on, parallel 0) stint.scheduled',
  lease: 'vacuum (truncate off, skip_locked on, parallel 0) stint.lease',
  queue_count: 'vacuum (truncate off, skip_locked on, parallel 0) stint.queue_count',
};

// Reads only. The horizon is the oldest transaction that may still see a dead row.
const HORIZON: Statement = {
  name: 'vacuum-horizon',
  text: `select
  coalesce((select min(least(backend_xmin::text::bigint, backend_xid::text::bigint))::text from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()), pg_current_snapshot()::text) as horizon,
  (select coalesce(sum(n_dead_tup), 0)::int from pg_stat_user_tables
    where schemaname = 'stint' and relname in ('ready', 'scheduled', 'lease', 'queue_count')) as dead`,
};

const LOCK: Statement = { name: 'vacuum-lock', text: `select pg_try_advisory_lock(hashtext('stint vacuum')) as mine` };
const UNLOCK: Statement = { name: 'vacuum-unlock', text: `select pg_advisory_unlock(hashtext('stint vacuum'))` };
