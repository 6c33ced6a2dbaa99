import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { pino } from 'pino';
import { migrate } from '../src/db/migrate.js';
import { startTestServer } from './helpers/postgres-server.js';

const FILE = new URL('../../migrations/schema.sql', import.meta.url);

const HEADER = `-- Today's shape of the schema, generated from a freshly migrated database: npm run schema. Not run by anything; read it instead of
-- adding up the migrations.
`;

/** The text that `migrations/schema.sql` should have: what the catalog of the migrated database at `url` says. */
export async function dumpSchema(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const blocks: string[] = [];
    for (const part of [TYPES, SEQUENCES, TABLES, VIEWS, FUNCTIONS, TRIGGERS]) {
      const { rows } = await client.query<{ text: string }>(part);
      blocks.push(...rows.map(({ text }) => text));
    }
    return [HEADER, ...blocks.map((block) => `${block.trimEnd()}\n`)].join('\n');
  } finally {
    await client.end();
  }
}

/** The text that it has. */
export function committedSchema(): string {
  return readFileSync(FILE, 'utf8');
}

async function main(flag: string | undefined): Promise<void> {
  if (flag !== '--write' && flag !== '--check')
    throw new Error('usage: node dist/test/dump-schema.js --write | --check');
  const server = await startTestServer();
  try {
    await migrate(server.url, { log: pino({ level: 'warn' }, pino.destination(2)) });
    const text = await dumpSchema(server.url);
    if (flag === '--write') return writeFileSync(FILE, text);
    if (committedSchema() === text) return;
    process.stderr.write('migrations/schema.sql is out of date: npm run schema\n');
    process.exitCode = 1;
  } finally {
    await server.stop();
  }
}

// Each answers one text an object. Names are printed without the schema: the connection's search_path hides it.
const TYPES = `
select format(E'create type %I as enum (%s);', t.typname,
  (select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder) from pg_enum e where e.enumtypid = t.oid)) as text
from pg_type t
where t.typnamespace = 'stint'::regnamespace and t.typtype = 'e'
order by t.typname`;

const SEQUENCES = `
select format('create sequence %I as %s increment %s cache %s;', c.relname, format_type(s.seqtypid, null), s.seqincrement, s.seqcache) as text
from pg_class c
join pg_sequence s on s.seqrelid = c.oid
where c.relnamespace = 'stint'::regnamespace
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i') and d.refobjsubid > 0)
order by c.relname`;

const TABLES = `
with setting as materialized (select set_config('search_path', 'stint', true))
select format(E'create table %I (\\n  %s\\n)%s;%s', c.relname, concat_ws(E',\\n  ', columns.text, constraints.text),
  (select ' with (' || string_agg(replace(option, '=', ' = '), ', ' order by option) || ')' from unnest(c.reloptions) as option),
  coalesce(indexes.text, '')) as text
from setting, pg_class c
cross join lateral (
  select string_agg(concat_ws(' ', quote_ident(a.attname), format_type(a.atttypid, a.atttypmod),
    case when co.collname <> 'default' then 'collate ' || quote_ident(co.collname) end,
    case when a.attidentity = 'a' then 'generated always as identity' end,
    case when d.adbin is not null then 'default ' || pg_get_expr(d.adbin, d.adrelid) end,
    case when a.attnotnull then 'not null' end), E',\\n  ' order by a.attnum) as text
  from pg_attribute a
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  left join pg_collation co on co.oid = a.attcollation
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) columns
cross join lateral (
  select string_agg(format('constraint %I %s', o.conname, pg_get_constraintdef(o.oid)), E',\\n  ' order by o.contype desc, o.conname) as text
  from pg_constraint o
  where o.conrelid = c.oid and o.contype in ('p', 'u', 'f', 'c', 'x')) constraints
cross join lateral (
  select string_agg(E'\\n' || replace(replace(pg_get_indexdef(i.indexrelid), ' USING btree', ''), ' ON stint.', ' ON ') || ';', '' order by x.relname) as text
  from pg_index i
  join pg_class x on x.oid = i.indexrelid
  where i.indrelid = c.oid and not exists (select from pg_constraint o where o.conindid = i.indexrelid and o.contype in ('p', 'u', 'x'))) indexes
where c.relnamespace = 'stint'::regnamespace and c.relkind in ('r', 'p')
order by c.relname`;

const VIEWS = `
with setting as materialized (select set_config('search_path', 'stint', true))
select format(E'create view %I as\\n%s', c.relname, pg_get_viewdef(c.oid, 120)) as text
from setting, pg_class c
where c.relnamespace = 'stint'::regnamespace and c.relkind in ('v', 'm')
order by c.relname`;

const FUNCTIONS = `
with setting as materialized (select set_config('search_path', 'stint', true))
select pg_get_functiondef(p.oid) || ';' as text
from setting, pg_proc p
where p.pronamespace = 'stint'::regnamespace
order by p.proname, p.oid`;

const TRIGGERS = `
with setting as materialized (select set_config('search_path', 'stint', true))
select pg_get_triggerdef(t.oid, true) || ';' as text
from setting, pg_trigger t
join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'stint'::regnamespace and not t.tgisinternal
order by c.relname, t.tgname`;

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(process.argv[2]);
