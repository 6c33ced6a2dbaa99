import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readMigrations, type Migration } from '../src/db/read-migrations.js';
import { faultsOf, FIRST_RELEASE } from './migration-rules.js';

const migrations = await readMigrations();

test('C62: no migration since the first release holds a hot table locked, or takes away what a running version uses', () => {
  assert.ok(migrations.length >= FIRST_RELEASE);
  for (const migration of migrations.slice(FIRST_RELEASE)) {
    assert.deepEqual(faultsOf(migration, migrations.slice(0, migration.number - 1)), [], migration.name);
  }
});

test('the migrations of the first release serve no version that does not know them all', () => {
  assert.equal(migrations[FIRST_RELEASE - 1]!.compatibleFrom, FIRST_RELEASE);
});

function made(sql: string, compatibleFrom = FIRST_RELEASE): Migration {
  const text = `-- compatible-from: ${compatibleFrom}\n-- Why: a reason; with a semicolon.\n${sql}`;
  return { number: 6, name: '0006-made', sql: text, checksum: '', compatibleFrom, concurrentIndex: undefined };
}

const before = migrations.slice(0, FIRST_RELEASE);

for (const [sql, fault] of [
  ['create index ready_kind on ready (kind);', /concurrently/],
  ['create unique index on job (id);', /concurrently/],
  ['drop index dead_queue;', /drop it concurrently/],
  ['alter table job alter column priority type integer;', /rewrites/],
  ['alter table job alter priority set data type integer;', /rewrites/],
  ['alter table job add column made_at timestamptz not null default clock_timestamp();', /rewrites/],
  ['alter table job add column a int, add column n bigserial;', /rewrites/],
  ['alter table job add column n bigint generated always as identity;', /rewrites/],
  ['alter table job alter column kind set not null;', /scans/],
  ['alter table job add constraint kind_given check (kind is not null);', /scans/],
  ['alter table webhook add foreign key (queue_id) references queue;', /scans/],
  ['alter table webhook add column owner uuid references tenant;', /locks both/],
  ['alter table dead add constraint dead_lease unique (lease_id);', /using index/],
  ['alter table limit_usage set logged;', /rewrites/],
  ['update ready set rank = 0;', /in batches/],
  ['with gone as (select job_id from dead) delete from finished where false;', /in batches/],
  ['truncate queue_count;', /not in a migration/],
  ['alter table ready add column a int; alter table lease add column a int;', /one hot table/],
  ['alter table job drop column dead_from;', /must rise/],
  ['alter table job rename column dead_from to came_from;', /must rise/],
  ['drop table queue_rate;', /must rise/],
  ['drop view job_state;', /must rise/],
] as const) {
  test(`C62: refused in a migration: ${sql}`, () => {
    assert.match(faultsOf(made(sql), before).join('\n'), fault);
  });
}

for (const [sql, compatibleFrom] of [
  ['alter table ready add column ordering_key text;'],
  ['alter table ready add column weight integer not null default 1;'],
  ['alter table job add column seen timestamptz not null default now();'],
  ['create index concurrently ready_kind on ready (job_id);'],
  ['drop index concurrently if exists dead_queue;'],
  [
    'create table thing (id bigint generated always as identity primary key, at timestamptz default clock_timestamp()); create index on thing (at);',
  ],
  ['alter table job add constraint kind_short check (length(kind) < 129) not valid;'],
  ['alter table job validate constraint kind_short;'],
  ['alter table dead add constraint dead_lease unique using index dead_lease;'],
  ['create or replace function f() returns trigger language plpgsql as $$ begin delete from job; return null; end $$;'],
  ['alter table job drop column dead_from;', 5],
  ["alter type dead_reason add value 'worn_out';"],
] as const) {
  test(`C62: let pass in a migration: ${sql}`, () => {
    assert.deepEqual(faultsOf(made(sql, compatibleFrom), before), []);
  });
}

test('a migration that does not say from which version on it serves, or says less than an earlier one, is refused', () => {
  const silent = { ...made('select 1;'), sql: 'select 1;' };
  assert.match(faultsOf(silent, before).join('\n'), /say `-- compatible-from: N`/);
  assert.match(faultsOf(made('select 1;', 3), before).join('\n'), /must not be below 4/);
});
