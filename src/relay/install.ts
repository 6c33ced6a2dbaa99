import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../observability/log.js';

const OLDEST_VERSION = 13;
const VERSION = 1;
const LOCK_TIMEOUT = '2s';
const RETRY_FOR_MS = 60_000;
const RETRY_PAUSE_MS = 500;
const DEFAULT_SCHEMA = 'stint_outbox';
/** Lock not available, deadlock: another session stood in the way and will be gone. */
const PASSING_STATES = new Set(['55P03', '40P01']);

/** The SQL that makes an outbox in a schema of that name, to be run in one transaction. */
export function outboxDdl(schema: string): string {
  return readFileSync(packagedFile(), 'utf8').replaceAll('\r\n', '\n').replaceAll(DEFAULT_SCHEMA, schema);
}

/**
 * Makes the outbox in an application's database, in one transaction that waits for no lock longer than 2 s; tried again for a
 * minute. Where it is of this version already, nothing is done. Answers whether something was.
 *
 * @throws Error in plain words for whatever stands in the way
 */
export async function installOutbox(url: string, schema: string, log: Pick<Log, 'warn'>): Promise<boolean> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    application_name: 'stint relay install',
  });
  // Without a listener a connection that breaks would end the process; the call under way fails by itself.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await checkServer(client);
    const installed = await installedVersion(client, schema);
    if (installed > VERSION) {
      throw new Error(`the outbox in the schema ${schema} is of version ${installed}: this Stint knows ${VERSION}`);
    }
    if (installed === VERSION) return false;
    await applyWithRetries(client, schema, log);
    return true;
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function checkServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ number: number; version: string }>(SERVER);
  const { number, version } = rows[0]!;
  if (number < OLDEST_VERSION * 10_000) {
    throw new Error(`the database is PostgreSQL ${version}: an outbox needs ${OLDEST_VERSION} or newer`);
  }
}

/** 0: none. */
async function installedVersion(client: pg.Client, schema: string): Promise<number> {
  const { rows } = await client.query<{ exists: boolean }>(IS_INSTALLED, [`${schema}.outbox_version()`]);
  if (!rows[0]!.exists) return 0;
  const found = await client.query<{ version: number }>(`select ${schema}.outbox_version() as version`);
  return found.rows[0]!.version;
}

async function applyWithRetries(client: pg.Client, schema: string, log: Pick<Log, 'warn'>): Promise<void> {
  for (const started = Date.now(); ; await pause(RETRY_PAUSE_MS)) {
    try {
      return await apply(client, schema);
    } catch (error) {
      const passing = PASSING_STATES.has((error as { code?: string }).code ?? '');
      if (!passing || Date.now() - started > RETRY_FOR_MS) throw inWords(error, schema);
      log.warn({ schema }, 'a lock is held by another session: the outbox is tried again');
    }
  }
}

/** A short lock timeout: a lock that waits makes everybody behind it wait too. */
async function apply(client: pg.Client, schema: string): Promise<void> {
  await client.query('begin');
  try {
    await client.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query(ONE_AT_A_TIME);
    await client.query(outboxDdl(schema));
    await client.query('commit');
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

function inWords(error: unknown, schema: string): unknown {
  if ((error as { code?: string }).code !== '42501') return error;
  return new Error(
    `the role may not make the schema ${schema} (${(error as Error).message}): grant it create on the database, or ` +
      'have its owner run what stint relay ddl prints',
    { cause: error },
  );
}

/** Sources and compiled files lie at different depths below the package's root. */
function packagedFile(): string {
  for (let step = import.meta.dirname; ; step = path.dirname(step)) {
    const candidate = path.join(step, 'src', 'relay', 'outbox.sql');
    if (existsSync(candidate)) return candidate;
    if (path.dirname(step) === step) throw new Error('the file outbox.sql is missing from this installation');
  }
}

const SERVER = `
select current_setting('server_version_num')::int as number, current_setting('server_version') as version`;

const IS_INSTALLED = `
select to_regprocedure($1::text) is not null as exists`;

// The lock of the whole: "stint", "outbox".
const ONE_AT_A_TIME = `
select pg_advisory_xact_lock(22292, 3)`;
