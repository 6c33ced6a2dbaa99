import { setTimeout as pause } from 'node:timers/promises';
import type pg from 'pg';
import type { Logger } from 'pino';
import { record } from './ledger.js';
import type { Migration } from './read-migrations.js';

/** Two int4 keys of the advisory lock that all instances take: "stint", "migrate". */
export const LOCK_KEYS = [0x5714, 0x1] as const;

/** While a lock is waited for, whoever comes after waits as well: calls notice nothing of the first of these, and little of the last. */
const FIRST_WAIT_MS = 100;
/** Longer than Postgres' `deadlock_timeout` (1 s), after which an autovacuum that is in the way gives way. */
const LONGEST_WAIT_MS = 1_600;
/** Between two tries, so that what queued up behind the one has long gone through before the next. */
const PAUSES_PER_WAIT = 4;
/** The build of an index waits for transactions that began before it, and nobody waits behind it. */
const CONCURRENT_WAIT_MS = 60_000;
/** Shorter than the chart's startup probe waits. */
const RETRY_FOR_MS = 240_000;

/** Lock not available, deadlock: another session stood in the way and will be gone. */
const PASSING_STATES = new Set(['55P03', '40P01']);

export interface ApplyOptions {
  readonly log: Pick<Logger, 'warn'>;
  /** How long locks are tried for, in milliseconds: 4 minutes unless given. */
  readonly retryFor?: number | undefined;
}

/**
 * Applies a migration and records it, in one transaction unless it builds an index concurrently. Waits for a lock for 0.1 s to 1.6 s at
 * a time and for at most a fifth of the time, so that nobody is held up for longer. Throws Error in plain words when it fails, or when
 * it gets no lock for 4 minutes.
 */
export async function applyMigration(client: pg.Client, migration: Migration, options: ApplyOptions): Promise<void> {
  const { log, retryFor = RETRY_FOR_MS } = options;
  const { name } = migration;
  const started = performance.now();
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    try {
      await (migration.concurrentIndex === undefined ? apply(client, migration, wait) : build(client, migration));
      return;
    } catch (error) {
      const passing = PASSING_STATES.has((error as { code?: string }).code ?? '');
      if (!passing || performance.now() - started > retryFor) {
        const given = passing ? `no lock within ${retryFor / 1_000} s: ` : '';
        throw new Error(`the migration ${name} failed: ${given}${(error as Error).message}`, { cause: error });
      }
      log.warn({ migration: name }, 'a lock is held by another session: the migration is tried again');
    }
    await pause(wait * PAUSES_PER_WAIT);
  }
}

async function apply(client: pg.Client, migration: Migration, wait: number): Promise<void> {
  await client.query('begin');
  try {
    await checkLockHeld(client);
    await client.query(SETTINGS, ['true', `${wait}ms`]);
    await client.query(migration.sql);
    await record(client, migration);
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

/** Outside of a transaction, so a try that failed has left an index that is not valid: it goes first. */
async function build(client: pg.Client, migration: Migration): Promise<void> {
  await checkLockHeld(client);
  await client.query(SETTINGS, ['false', `${CONCURRENT_WAIT_MS}ms`]);
  await client.query(`drop index concurrently if exists ${migration.concurrentIndex!}`);
  await client.query(migration.sql);
  await record(client, migration);
}

async function checkLockHeld(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ held: boolean }>(LOCK_HELD, [...LOCK_KEYS]);
  if (!rows[0]!.held) {
    throw new Error(
      'the session changed between two statements: connect directly, not through a transaction-mode pooler',
    );
  }
}

const LOCK_HELD = `
select exists (
  select from pg_locks
  where locktype = 'advisory' and pid = pg_backend_pid() and granted
    and database = (select oid from pg_database where datname = current_database())
    and classid = $1::oid and objid = $2::oid and objsubid = 2) as held`;

const SETTINGS = `
select set_config('lock_timeout', $2::text, $1::boolean), set_config('statement_timeout', '0', $1::boolean),
  set_config('search_path', 'stint', $1::boolean)`;
