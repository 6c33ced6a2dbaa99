import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { type Migration, readMigrations } from './read-migrations.js';

const OLDEST_VERSION = 15;
const LOCK_TIMEOUT = '3s';
const RETRY_FOR_MS = 60_000;
const RETRY_PAUSE_MS = 500;
const WAIT_FOR_OTHER_MS = 300_000;
const POLL_MS = 200;
type Log = Pick<Logger, 'debug' | 'info' | 'warn'>;

/** Two int4 keys of the advisory lock that all instances take: "stint", "migrate". */
const LOCK_KEYS = [0x5714, 0x1] as const;
/** Lock not available, deadlock: another session stood in the way and will be gone. */
const PASSING_STATES = new Set(['55P03', '40P01']);

export interface MigrateOptions {
  readonly log: Log;
  /** Where the files are; `migrations/` of the package unless given. */
  readonly directory?: string;
}

/**
 * Brings the schema `stint` up to this version: applies the missing migrations in order, each in a transaction of its
 * own. Safe to run from several instances at once, and while older ones serve. Answers the names it applied.
 * Throws an Error in plain words when the database cannot be reached, is older than PostgreSQL 15, holds migrations this
 * version does not know or knows otherwise, or keeps a needed lock for a minute.
 */
export async function migrate(
  database: string | pg.ClientConfig,
  options: MigrateOptions,
): Promise<{ applied: string[] }> {
  const migrations = await readMigrations(options.directory);
  return withClient(database, async (client) => {
    await checkVersion(client);
    await lockOut(client, options.log);
    await createLedger(client);
    const applied: string[] = [];
    for (const migration of missing(migrations, await ledger(client))) {
      await applyWithRetries(client, migration, options.log);
      options.log.info({ migration: migration.name }, 'migration applied');
      applied.push(migration.name);
    }
    return { applied };
  });
}

/** Names of the migrations that `migrate` would apply; changes nothing. Throws as `migrate` does. */
export async function pendingMigrations(
  database: string | pg.ClientConfig,
  options: Omit<MigrateOptions, 'log'> = {},
): Promise<string[]> {
  const migrations = await readMigrations(options.directory);
  return withClient(database, async (client) => {
    await checkVersion(client);
    const known = (await ledgerExists(client)) ? await ledger(client) : [];
    return missing(migrations, known).map((migration) => migration.name);
  });
}

async function withClient<T>(database: string | pg.ClientConfig, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const config = typeof database === 'string' ? { connectionString: database } : database;
  const client = new pg.Client({ connectionTimeoutMillis: 10_000, application_name: 'stint migrate', ...config });
  // Without a listener a connection that breaks would end the process; the call under way fails by itself.
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    const where = `${client.host}:${client.port}, database ${client.database ?? '?'}`;
    throw new Error(`the database cannot be reached (${where}): ${reasonOf(error)}`, { cause: error });
  }
  try {
    return await use(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** A host with several addresses fails with one error for each and no message of its own. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}

async function checkVersion(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ number: string; version: string }>(CHECK_VERSION);
  const { number, version } = rows[0]!;
  if (Number(number) < OLDEST_VERSION * 10_000) {
    throw new Error(`the database is PostgreSQL ${version}: Stint needs ${OLDEST_VERSION} or newer`);
  }
}

/** Polls: a blocked call would hold a snapshot, for which `create index concurrently` in the other instance would wait. */
async function lockOut(client: pg.Client, log: Log): Promise<void> {
  for (const started = Date.now(); ; await pause(POLL_MS)) {
    const { rows } = await client.query<{ taken: boolean }>(TAKE_LOCK, [...LOCK_KEYS]);
    if (rows[0]!.taken) return;
    if (Date.now() - started > WAIT_FOR_OTHER_MS) {
      throw new Error(`another instance has been migrating this database for ${WAIT_FOR_OTHER_MS / 60_000} minutes`);
    }
    log.debug('waiting for another instance to finish its migration');
  }
}

async function createLedger(client: pg.Client): Promise<void> {
  if (await ledgerExists(client)) return;
  try {
    const { rows } = await client.query<{ exists: boolean }>(SCHEMA_EXISTS);
    // Asked first: "if not exists" wants the right to create even where there is nothing to create.
    if (!rows[0]!.exists) await client.query('create schema stint');
    await client.query(CREATE_LEDGER);
  } catch (error) {
    if ((error as { code?: string }).code !== '42501') throw error;
    throw new Error(
      `the role ${client.user ?? '?'} may not make the schema stint (${reasonOf(error)}): grant it create on the ` +
        `database ${client.database ?? '?'}`,
      { cause: error },
    );
  }
}

async function ledgerExists(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>(LEDGER_EXISTS);
  return rows[0]!.exists;
}

type Applied = Pick<Migration, 'number' | 'name' | 'checksum'>;

async function ledger(client: pg.Client): Promise<Applied[]> {
  return (await client.query<Applied>(READ_LEDGER)).rows;
}

function missing(migrations: readonly Migration[], applied: readonly Applied[]): Migration[] {
  for (const row of applied) {
    const ours = migrations.find((migration) => migration.number === row.number);
    if (ours === undefined) {
      throw new Error(
        `the database is newer than this version of Stint: it holds the migration ${row.name}, unknown here`,
      );
    }
    if (ours.checksum !== row.checksum || ours.name !== row.name) {
      throw new Error(
        `the migration ${ours.name} differs from the one applied to the database (${row.name}): a released ` +
          'migration is never edited; install the version it came from',
      );
    }
  }
  const done = new Set(applied.map((row) => row.number));
  return migrations.filter((migration) => !done.has(migration.number));
}

async function applyWithRetries(client: pg.Client, migration: Migration, log: Log): Promise<void> {
  for (const started = Date.now(); ; await pause(RETRY_PAUSE_MS)) {
    try {
      await apply(client, migration);
      return;
    } catch (error) {
      const passing = PASSING_STATES.has((error as { code?: string }).code ?? '');
      if (!passing || Date.now() - started > RETRY_FOR_MS) {
        const given = passing ? `no lock within ${RETRY_FOR_MS / 1_000} s: ` : '';
        throw new Error(`the migration ${migration.name} failed: ${given}${reasonOf(error)}`, { cause: error });
      }
      log.warn({ migration: migration.name }, 'a lock is held by another session: the migration is tried again');
    }
  }
}

/** A short lock timeout: a lock that waits makes everybody behind it wait too. */
async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query('begin');
  try {
    const { rows } = await client.query<{ held: boolean }>(LOCK_HELD, [...LOCK_KEYS]);
    if (!rows[0]!.held) {
      throw new Error(
        'the session changed between two statements: connect directly, not through a transaction-mode pooler',
      );
    }
    await client.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query('set local statement_timeout = 0');
    await client.query('set local search_path to stint');
    await client.query(migration.sql);
    await client.query(RECORD, [migration.number, migration.name, migration.checksum]);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

const CHECK_VERSION = `
select current_setting('server_version_num') as number, current_setting('server_version') as version`;

const TAKE_LOCK = `
select pg_try_advisory_lock($1::int, $2::int) as taken`;

const LOCK_HELD = `
select exists (
  select from pg_locks
  where locktype = 'advisory' and pid = pg_backend_pid() and granted
    and database = (select oid from pg_database where datname = current_database())
    and classid = $1::oid and objid = $2::oid and objsubid = 2) as held`;

const SCHEMA_EXISTS = `
select to_regnamespace('stint') is not null as exists`;

const LEDGER_EXISTS = `
select to_regclass('stint.migration') is not null as exists`;

const CREATE_LEDGER = `
create table stint.migration (
  number int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp())`;

const READ_LEDGER = `
select number, name, checksum
from stint.migration
order by number`;

const RECORD = `
insert into stint.migration (number, name, checksum)
values ($1::int, $2::text, $3::text)`;
