import type pg from 'pg';
import type { Migration } from './read-migrations.js';
import { outgrownBy } from './schema-floor.js';

/** A row of `stint.migration`: a migration that the database holds. */
export interface Applied {
  readonly number: number;
  readonly name: string;
  readonly checksum: string;
  readonly compatibleFrom: number;
}

/** What the database holds; nothing where there is no ledger yet, or one from before the first release. */
export async function readLedger(client: pg.Client): Promise<Applied[]> {
  return (await ledgerExists(client)) ? (await client.query<Applied>(READ)).rows : [];
}

/**
 * Those of `migrations` that the database does not hold. Throws Error in plain words when it was changed by other migrations than
 * these, or by newer ones after which this version must not work with it.
 */
export function missing(migrations: readonly Migration[], applied: readonly Applied[]): Migration[] {
  for (const row of applied) {
    const ours = migrations[row.number - 1];
    if (ours !== undefined && (ours.checksum !== row.checksum || ours.name !== row.name)) {
      throw new Error(
        `the migration ${ours.name} differs from the one applied to the database (${row.name}): a released ` +
          'migration is never edited; install the version it came from',
      );
    }
  }
  const outgrown = outgrownBy(Math.max(0, ...applied.map((row) => row.compatibleFrom)), migrations.length);
  if (outgrown !== undefined) throw outgrown;
  const done = new Set(applied.map((row) => row.number));
  return migrations.filter((migration) => !done.has(migration.number));
}

/** Makes the ledger where there is none. Throws Error in plain words when the role may not. */
export async function createLedger(client: pg.Client): Promise<void> {
  if (await ledgerExists(client)) return;
  try {
    const { rows } = await client.query<{ exists: boolean }>(SCHEMA_EXISTS);
    // Asked first: "if not exists" wants the right to create even where there is nothing to create.
    if (!rows[0]!.exists) await client.query('create schema stint');
    await client.query(CREATE);
    await client.query(ADD_COMPATIBLE_FROM);
  } catch (error) {
    if ((error as { code?: string }).code !== '42501') throw error;
    throw new Error(
      `the role ${client.user ?? '?'} may not make the schema stint (${(error as Error).message}): grant it create on the ` +
        `database ${client.database ?? '?'}`,
      { cause: error },
    );
  }
}

/** Writes down that the migration is applied. */
export async function record(client: pg.Client, migration: Migration): Promise<void> {
  const { number, name, checksum, compatibleFrom } = migration;
  await client.query(RECORD, [number, name, checksum, compatibleFrom]);
}

async function ledgerExists(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>(EXISTS);
  return rows[0]!.exists;
}

// With the column that came last.
const EXISTS = `
select exists (
  select from pg_attribute
  where attrelid = to_regclass('stint.migration') and attname = 'compatible_from' and not attisdropped)`;

const SCHEMA_EXISTS = `
select to_regnamespace('stint') is not null as exists`;

const CREATE = `
create table if not exists stint.migration (
  number int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp())`;

// A ledger from before the first release lacks it, and what stands in it shuts older versions out.
const ADD_COMPATIBLE_FROM = `
alter table stint.migration add column if not exists compatible_from int`;

const READ = `
select number, name, checksum, coalesce(compatible_from, number) as "compatibleFrom"
from stint.migration
order by number`;

const RECORD = `
insert into stint.migration (number, name, checksum, compatible_from)
values ($1::int, $2::text, $3::text, $4::int)`;
