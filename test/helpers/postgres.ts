import { createHash, randomBytes } from 'node:crypto';
import pg from 'pg';
import { pino } from 'pino';
import { migrate } from '../../src/db/migrate.js';
import { readMigrations } from '../../src/db/read-migrations.js';
import { findPostgres15, startTestServer, type TestServer } from './postgres-server.js';

export interface TestDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

const log = pino({ level: 'warn' }, pino.destination(2));
const own = new Map<string, Promise<TestServer | undefined>>();
const TEMPLATE_LOCK = 0x5714_0002;

// The default ends the process without its exit hooks, and those take a Postgres of its own along.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

// After everything, the hooks of the test file too, which drop its databases.
process.once('beforeExit', () => {
  void (async () => {
    for (const starting of own.values()) await (await starting)?.stop();
  })();
});

/** The server of this test run, started by `npm test`; one of this process's own when a test file is run by itself. */
async function currentServer(): Promise<string> {
  return process.env['STINT_TEST_DATABASE_URL'] ?? (await ownServer('current', () => startTestServer()))!.url;
}

/** A PostgreSQL 15 to run a suite on as well; undefined where none is installed. */
export async function otherPostgres(): Promise<string | undefined> {
  const given = process.env['STINT_TEST_POSTGRES15_URL'];
  if (given !== undefined) return given;
  const server = await ownServer('15', async () => {
    const home = await findPostgres15();
    return home === undefined ? undefined : startTestServer(home);
  });
  return server?.url;
}

async function ownServer(name: string, start: () => Promise<TestServer | undefined>): Promise<TestServer | undefined> {
  let starting = own.get(name);
  if (starting === undefined) own.set(name, (starting = start()));
  return starting;
}

/** A database with this version's schema, cloned from a template that is migrated once per server. */
export async function createDatabase(server?: string): Promise<TestDatabase> {
  const admin = server ?? (await currentServer());
  return cloneOf(admin, await templateOn(admin));
}

/** A database with nothing in it. */
export async function createEmptyDatabase(server?: string): Promise<TestDatabase> {
  return cloneOf(server ?? (await currentServer()), 'template1');
}

/** Rows of one statement on a connection of its own. */
export async function query<R extends pg.QueryResultRow = any>(
  url: string,
  sql: string,
  params: unknown[] = [],
): Promise<R[]> {
  return withClient(url, async (client) => (await client.query<R>(sql, params)).rows);
}

async function cloneOf(admin: string, template: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`;
  await query(admin, `create database ${name} template ${template}`);
  return {
    url: urlOf(admin, name),
    drop: async () => {
      await query(admin, `drop database if exists ${name} with (force)`);
    },
  };
}

/** Test files run at once: one builds it, under another name until it is whole, the others wait. */
async function templateOn(admin: string): Promise<string> {
  const digest = createHash('sha256');
  for (const migration of await readMigrations()) digest.update(migration.checksum);
  const name = `stint_template_${digest.digest('hex').slice(0, 16)}`;
  await withClient(admin, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name]);
    if (rowCount !== 0) return;
    await client.query(`drop database if exists ${name}_draft with (force)`);
    await client.query(`create database ${name}_draft`);
    await migrate(urlOf(admin, `${name}_draft`), { log });
    await client.query(`alter database ${name}_draft rename to ${name}`);
  });
  return name;
}

function urlOf(admin: string, database: string): string {
  const url = new URL(admin);
  url.pathname = `/${database}`;
  return url.href;
}

async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}
