import type { Connections, Statement } from '../db/pool.js';
import type { StorageSample } from '../observability/storage-metrics.js';

/** What the tables take up, and who holds back their vacuum. Throws UNAVAILABLE. */
export async function readStorage(connections: Connections): Promise<StorageSample> {
  const [sample] = await connections.query<StorageSample>(STORAGE);
  return sample!;
}

// Reads only: statistics, and the sizes of files. Ids and snapshots of all sessions may be seen by everybody, their times only by a role
// that holds theirs or pg_read_all_stats: while one of the others holds a snapshot, the age in seconds is not known. VACUUM's own snapshot
// holds nothing back. Slots and standbys have no time. A slot's catalog_xmin holds back the catalogs alone.
const STORAGE: Statement = {
  name: 'sample-storage',
  text: `with clock as materialized (select clock_timestamp() as at),
sessions as materialized (
  select greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions, extract(epoch from clock.at - a.xact_start) as seconds,
    pg_has_role(a.usesysid, 'usage') or pg_has_role('pg_read_all_stats', 'usage') as visible
  from clock, pg_stat_activity a
  where a.datname = current_database() and a.pid <> pg_backend_pid() and a.usesysid is not null
    and a.application_name <> 'stint vacuum' and coalesce(a.backend_xmin, a.backend_xid) is not null
    and a.pid not in (select pid from pg_stat_replication)
),
holders(holder, transactions, seconds) as (
  select 'session', max(transactions), case when bool_and(visible) is not false then coalesce(max(seconds), 0) end from sessions
  union all
  select 'prepared_transaction', max(age(p.transaction)), coalesce(max(extract(epoch from clock.at - p.prepared)), 0)
  from clock, pg_prepared_xacts p
  where p.database = current_database()
  union all
  select 'replication_slot', max(age(xmin)), null from pg_replication_slots
  union all
  select 'standby', max(age(backend_xmin)), null from pg_stat_replication
),
tables as (
  select relname as "table", pg_table_size(oid)::float8 as heap, pg_indexes_size(oid)::float8 as indexes,
    pg_stat_get_live_tuples(oid)::float8 as live, pg_stat_get_dead_tuples(oid)::float8 as dead,
    extract(epoch from greatest(pg_stat_get_last_vacuum_time(oid), pg_stat_get_last_autovacuum_time(oid)))::float8 as "vacuumedAt"
  from pg_class
  where oid = any(array['ready', 'scheduled', 'lease', 'queue_count', 'job', 'finished', 'dead', 'attempt', 'idempotency', 'event',
    'audit_event']::regclass[])
)
select
  (select json_agg(json_build_object('holder', holder, 'transactions', coalesce(transactions, 0), 'seconds', seconds::float8)) from holders)
    as holders,
  (select json_agg(t) from tables t) as tables`,
};
