import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import { applyMigration, LOCK_KEYS } from './apply-migration.js';
import { createLedger, missing, readLedger } from './ledger.js';
import { type Migration, readMigrations } from './read-migrations.js';

const OLDEST_VERSION = 15;
const WAIT_FOR_OTHER_MS = 300_000;
const POLL_MS = 200;
type Log = Pick<Logger, 'debug' | 'info' | 'warn'>;

export interface SchemaOptions {
  /** Where the files are; `migrations/` of the package unless given. */
  readonly directory?: string;
}

export interface MigrateOptions extends SchemaOptions {
  readonly log: Log;
  /** How long a migration is tried again for that gets no lock, in milliseconds: 4 minutes unless given. */
  readonly retryFor?: number;
}

export interface Schema {
  /** The highest number of a migration that this version knows. */
  readonly known: number;
}

/**
 * Brings the schema `stint` up to this version: applies the missing migrations in order. Safe to run from several instances at once,
 * and while older ones serve; a database that a newer version has changed, and that still serves this one, is left as it is. Answers
 * the names it applied.
 * Throws an Error in plain words when the database cannot be reached, is older than PostgreSQL 15, was changed so that it no longer
 * serves this version or by migrations that this version knows otherwise, or keeps a needed lock for 4 minutes.
 */
export async function migrate(
  database: string | pg.ClientConfig,
  options: MigrateOptions,
): Promise<Schema & { readonly applied: string[] }> {
  const migrations = await readMigrations(options.directory);
  const known = migrations.length;
  return withClient(database, async (client) => {
    await checkVersion(client);
    // Nobody who has nothing to do waits for another instance's migrations.
    if (missing(migrations, await readLedger(client)).length === 0) return { known, applied: [] };
    await lockOut(client, options.log);
    await createLedger(client);
    const applied: string[] = [];
    for (const migration of missing(migrations, await readLedger(client))) {
      await applyMigration(client, migration, options);
      options.log.info({ migration: migration.name }, 'migration applied');
      applied.push(migration.name);
    }
    return { known, applied };
  });
}

/** Names of the migrations that `migrate` would apply; changes nothing. Throws as `migrate` does. */
export async function pendingMigrations(
  database: string | pg.ClientConfig,
  options: SchemaOptions = {},
): Promise<string[]> {
  const migrations = await readMigrations(options.directory);
  return (await pending(database, migrations)).map((migration) => migration.name);
}

/** Makes sure that the database is at this version, and changes nothing. Throws as `migrate` does, and when it is older. */
export async function requireSchema(database: string | pg.ClientConfig, options: SchemaOptions = {}): Promise<Schema> {
  const migrations = await readMigrations(options.directory);
  const [first] = await pending(database, migrations);
  if (first !== undefined) {
    throw new Error(
      `the database is too old for this version of Stint: it lacks the migration ${first.name}. Run \`stint migrate\` of this ` +
        'version, or have `stint serve` do it with STINT_MIGRATE=on',
    );
  }
  return { known: migrations.length };
}

async function pending(database: string | pg.ClientConfig, migrations: readonly Migration[]): Promise<Migration[]> {
  return withClient(database, async (client) => {
    await checkVersion(client);
    return missing(migrations, await readLedger(client));
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

const CHECK_VERSION = `
select current_setting('server_version_num') as number, current_setting('server_version') as version`;

const TAKE_LOCK = `
select pg_try_advisory_lock($1::int, $2::int) as taken`;
