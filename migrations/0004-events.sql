-- Why: a tenant is told by signed webhooks when a job has died, when a backlog grows or clears, and when a schedule fails.

-- Deliveries are jobs in queues of Stint's own, one for each webhook and named by its id, which are this tenant's. No operation finds it:
-- a name begins with a letter or a digit, and its id is taken for no id.
insert into tenant (id, name, auto_create_queues)
values ('00000000-0000-0000-0000-000000000000', '.events', false);

-- Durations are milliseconds. Secrets stand here as they are, since they sign. `queues` are patterns; without them it is for every queue.
-- `failures` are those in a row; at some number of them the circuit is open until `open_until`, longer each of the `opened` times in a row.
-- `disabled_at`: its endpoint has answered that it is gone. `dropped` counts events that found its queue full.
create table webhook (
  id uuid primary key,
  tenant_id uuid not null references tenant,
  name text collate "C" not null,
  queue_id integer not null unique,
  url text not null,
  events text[] not null,
  queues text[],
  backlog_depth bigint,
  backlog_age bigint,
  include_payload boolean not null,
  max_in_flight integer not null,
  secret text not null,
  previous_secret text,
  previous_until timestamptz,
  paused_at timestamptz,
  disabled_at timestamptz,
  failures integer not null default 0,
  opened integer not null default 0,
  open_until timestamptz,
  dropped bigint not null default 0,
  last_error text,
  last_error_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, name)
) with (fillfactor = 70);
create index webhook_job_dead on webhook (tenant_id) where 'job.dead' = any(events);
create index webhook_backlog on webhook (id) where 'queue.backlog' = any(events);

-- What has happened and is to be told; a task makes deliveries of it and deletes it. With `webhook_id` it is for that one alone.
create table event (
  seq bigint generated always as identity primary key,
  id uuid not null default gen_random_uuid(),
  at timestamptz not null default clock_timestamp(),
  tenant_id uuid not null,
  type text not null,
  queue text collate "C",
  webhook_id uuid,
  job_id uuid,
  data jsonb not null
) with (autovacuum_vacuum_scale_factor = 0.02);

-- Queues that are over a webhook's threshold, and that it has been told of.
create table backlog_alert (
  webhook_id uuid not null references webhook on delete cascade,
  queue_id integer not null,
  since timestamptz not null default clock_timestamp(),
  primary key (webhook_id, queue_id)
);

-- Records an event for each job that dies, in the very statement that lets it die, whichever that is; only for tenants that have a
-- webhook for it. Values are taken as they are: the error stays text, since jsonb refuses legal JSON.
create function record_deaths() returns trigger language plpgsql as $$
begin
  if not exists (select from died) or not exists (select from stint.webhook where 'job.dead' = any(events)) then
    return null;
  end if;
  insert into stint.event (at, tenant_id, type, queue, job_id, data)
  select d.ended_at, q.tenant_id, 'job.dead', q.name, d.job_id, jsonb_build_object(
    'kind', j.kind, 'attempts', d.attempt, 'reason', d.reason, 'outcome', e.outcome, 'error', e.error,
    'enqueuedAt', (extract(epoch from j.created_at) * 1000000)::float8)
  from died d
  join stint.queue q on q.id = d.queue_id
  left join lateral (select job.kind, job.created_at from stint.job where job.id = d.job_id offset 0) j on true
  left join lateral (
    select a.outcome, a.error
    from stint.attempt a
    where a.job_id = d.job_id and (a.error is not null or a.outcome = 'expired')
    order by a.epoch desc
    limit 1) e on true
  where exists (select from stint.webhook w where w.tenant_id = q.tenant_id and 'job.dead' = any(w.events));
  return null;
end
$$;

create trigger job_dead after insert on dead referencing new table as died for each statement execute function record_deaths();

-- Records an event when a schedule begins to fail, in the very statement that notes it; only for tenants that have a webhook for it.
create function record_schedule_failure() returns trigger language plpgsql as $$
begin
  insert into stint.event (at, tenant_id, type, queue, data)
  select new.error_at, new.tenant_id, 'schedule.failed', new.queue, jsonb_build_object(
    'schedule', new.name, 'queue', new.queue, 'error', new.error,
    'fireAt', to_char(new.next_fire_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'failedAt', to_char(new.error_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
  where exists (select from stint.webhook w where w.tenant_id = new.tenant_id and 'schedule.failed' = any(w.events));
  return null;
end
$$;

create trigger schedule_failed after update of failures on schedule for each row when (old.failures = 0 and new.failures > 0)
  execute function record_schedule_failure();
