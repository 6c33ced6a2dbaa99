import type { Connections, Statement } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Task } from './runner.js';

/**
 * Clears dead rows of the hot tables, on one instance at a time, and only when the oldest transaction has moved since the last
 * pass: otherwise each pass would walk everything for nothing.
 *
 * @param connections without statement timeout
 */
export function vacuumTask(connections: Connections, log: Pick<Log, 'warn'>): Task {
  let horizon = '';
  let allowed: boolean | undefined;
  return {
    name: 'vacuum',
    every: 2_000,
    whenIdle: 10_000,
    run: async ({ database }) => {
      if (allowed === undefined) {
        allowed = (await database.tasks.query<{ allowed: boolean }>(ALLOWED))[0]!.allowed;
        if (!allowed) log.warn(NOT_ALLOWED);
      }
      if (!allowed) return { counts: { vacuumed: 0 } };
      const [seen] = await database.tasks.query<{ horizon: string; dead: number }>(HORIZON);
      if (seen === undefined || seen.horizon === horizon || seen.dead < WORTH_IT) return { counts: { vacuumed: 0 } };
      const vacuumed = await connections.withConnection(async (connection) => {
        const [lock] = await connection.query<{ mine: boolean }>(LOCK);
        if (lock?.mine !== true) return 0;
        try {
          for (const statement of VACUUMS) await connection.query(statement);
        } finally {
          await connection.query(UNLOCK);
        }
        return VACUUMS.length;
      });
      if (vacuumed > 0) horizon = seen.horizon;
      return { counts: { vacuumed } };
    },
  };
}

const WORTH_IT = 1_000;
const NOT_ALLOWED =
  'this database role may not vacuum the hot tables, so their dead rows pile up: let it own them or grant it MAINTAIN (PostgreSQL 17), ' +
  'or have autovacuum do it: alter table stint.ready (and scheduled, lease, queue_count) set (autovacuum_enabled = on)';

// The hot tables, whose dead rows are the service's own to clear away: autovacuum comes too seldom for them. Takes the lock that lets
// reads and writes pass; a table that somebody else holds is left for the next pass.
const VACUUMS: readonly Statement[] = [
  { name: 'vacuum-ready', text: 'vacuum (truncate off, skip_locked on, parallel 0) stint.ready' },
  { name: 'vacuum-scheduled', text: 'vacuum (truncate off, skip_locked on, parallel 0) stint.scheduled' },
  { name: 'vacuum-lease', text: 'vacuum (truncate off, skip_locked on, parallel 0) stint.lease' },
  { name: 'vacuum-queue-count', text: 'vacuum (truncate off, skip_locked on, parallel 0) stint.queue_count' },
];

// Reads only. The horizon is the oldest transaction that may still see a dead row.
const HORIZON: Statement = {
  name: 'vacuum-horizon',
  text: `select
  coalesce((select min(least(backend_xmin::text::bigint, backend_xid::text::bigint))::text from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()), pg_current_snapshot()::text) as horizon,
  (select coalesce(sum(n_dead_tup), 0)::int from pg_stat_user_tables
    where schemaname = 'stint' and relname in ('ready', 'scheduled', 'lease', 'queue_count')) as dead`,
};

// Without the right VACUUM only warns and reports success. MAINTAIN is known from PostgreSQL 17 on.
const ALLOWED: Statement = {
  name: 'vacuum-allowed',
  text: `select bool_and(pg_has_role(c.relowner, 'usage') or case when current_setting('server_version_num')::int >= 170000
    then has_table_privilege(c.oid, 'MAINTAIN') else false end) as allowed
from pg_class c
where c.oid = any(array['stint.ready', 'stint.scheduled', 'stint.lease', 'stint.queue_count']::regclass[])`,
};

const LOCK: Statement = { name: 'vacuum-lock', text: `select pg_try_advisory_lock(hashtext('stint vacuum')) as mine` };
const UNLOCK: Statement = { name: 'vacuum-unlock', text: `select pg_advisory_unlock(hashtext('stint vacuum'))` };
