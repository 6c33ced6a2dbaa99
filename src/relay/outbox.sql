-- The outbox of Stint, version 1: for PostgreSQL 13 and newer, in a schema of its own. It makes what is missing, and touches
-- nothing else of the database, so it may be run again. See docs/relay.md for the roles that use it.

create schema if not exists stint_outbox;

-- Rows that were committed and wait for the relay, which deletes them once Stint has answered; those that Stint refuses are
-- parked. A row is told to Stint under its key. The id says which row was written first, and nothing more: a backup that is
-- restored begins to give out the same ids again.
create table if not exists stint_outbox.message (
  id bigint generated always as identity primary key,
  key uuid not null default gen_random_uuid(),
  queue text not null,
  payload text,
  payload_bytes bytea,
  options jsonb not null default '{}' check (jsonb_typeof(options) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  claimed_by uuid,
  claimed_until timestamptz,
  attempts int not null default 0,
  parked_at timestamptz,
  parked_reason text,
  check (payload is null or payload_bytes is null)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create index if not exists message_waiting on stint_outbox.message (id) where parked_at is null;
create index if not exists message_parked on stint_outbox.message (id) where parked_at is not null;

-- Enqueues one job when, and only when, the transaction commits. The payload is JSON text and arrives to the byte; null makes
-- a job without one. Options are the fields of Stint's enqueue by the names that its API gives them: kind, contentType, priority,
-- delay, runAt, maxAttempts, retry, visibilityTimeout, expiresAt, headers. Answers the job's idempotency key.
create or replace function stint_outbox.enqueue(queue text, payload text, options jsonb default '{}')
returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $function$
declare
  message_key uuid;
begin
  insert into stint_outbox.message (queue, payload, options)
  values (enqueue.queue, enqueue.payload, coalesce(enqueue.options, '{}'))
  returning message.key into message_key;
  if current_setting('stint_outbox.notify', true) is distinct from 'off' then
    perform pg_notify('stint_outbox', '');
  end if;
  return message_key;
end
$function$;

-- The same for a payload that is no JSON; its content type is application/octet-stream unless the options name another.
create or replace function stint_outbox.enqueue(queue text, payload bytea, options jsonb default '{}')
returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $function$
declare
  message_key uuid;
begin
  insert into stint_outbox.message (queue, payload_bytes, options)
  values (enqueue.queue, enqueue.payload, coalesce(enqueue.options, '{}'))
  returning message.key into message_key;
  if current_setting('stint_outbox.notify', true) is distinct from 'off' then
    perform pg_notify('stint_outbox', '');
  end if;
  return message_key;
end
$function$;

-- The same for values of JSON. A jsonb has lost its spaces, its repeated keys and the order of its keys before it comes here.
create or replace function stint_outbox.enqueue(queue text, payload json, options jsonb default '{}')
returns uuid
language sql
as $function$
  select stint_outbox.enqueue(queue, payload::text, options)
$function$;

create or replace function stint_outbox.enqueue(queue text, payload jsonb, options jsonb default '{}')
returns uuid
language sql
as $function$
  select stint_outbox.enqueue(queue, payload::text, options)
$function$;

create or replace function stint_outbox.outbox_version()
returns int
language sql
immutable
as $function$
  select 1
$function$;

revoke all on all functions in schema stint_outbox from public;
