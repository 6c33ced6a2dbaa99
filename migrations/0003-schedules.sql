-- Why: recurring jobs, whose state (next fire, last fire, last job, error) is in the database, so that any instance may fire them.

-- Durations are milliseconds. Either `cron` or `every` is set; runs of `every` are counted from `anchor_at`. What a job is made of is
-- kept as the job keeps it. `look_at` is when the schedule is to be looked at next: when it is due, later while it fails or its tenant
-- is suspended, null while it is paused and when it has ended. `revision` rises with every change but a fire.
create table schedule (
  id uuid primary key,
  tenant_id uuid not null references tenant,
  name text collate "C" not null,
  revision integer not null default 1,
  cron text,
  every bigint,
  time_zone text not null,
  anchor_at timestamptz not null,
  start_at timestamptz,
  end_at timestamptz,
  misfire text not null,
  overlap text not null,
  queue text collate "C" not null,
  kind text,
  payload bytea,
  content_type text,
  is_json boolean not null,
  headers text,
  rank smallint not null,
  size integer not null,
  max_attempts integer,
  visibility_timeout integer,
  retry jsonb,
  expires_after bigint,
  paused_at timestamptz,
  next_fire_at timestamptz,
  look_at timestamptz,
  last_fire_at timestamptz,
  last_job_id uuid,
  missed bigint not null default 0,
  skipped bigint not null default 0,
  failures integer not null default 0,
  error text,
  error_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((cron is null) <> (every is null)),
  check (every >= 1000),
  unique (tenant_id, name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index schedule_due on schedule (look_at) where look_at is not null;

-- The instants that have fired: one of a schedule makes one job, whoever comes twice. Rows are kept for an hour.
create table schedule_fire (
  schedule_id uuid not null,
  fire_at timestamptz not null,
  job_id uuid not null,
  primary key (schedule_id, fire_at)
) with (autovacuum_vacuum_scale_factor = 0.02);
