-- Today's shape of the schema, generated from a freshly migrated database: npm run schema. Not run by anything; read it instead of
-- adding up the migrations.

create type dead_reason as enum ('attempts_spent', 'final', 'expired', 'body_missing');

create type finished_state as enum ('completed', 'cancelled');

create type lease_end as enum ('none', 'acked', 'nacked', 'released', 'expired', 'undelivered', 'cancelled');

create sequence pos as bigint increment 1 cache 1;

create table api_key (
  id uuid not null,
  tenant_id uuid,
  name text collate "C" not null,
  secret_hash bytea not null,
  scopes text[] not null,
  created_at timestamp with time zone default now() not null,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  queues text[],
  limits jsonb default '{}'::jsonb not null,
  previous_hash bytea,
  previous_until timestamp with time zone,
  last_used_at timestamp with time zone,
  constraint api_key_secret_hash_key UNIQUE (secret_hash),
  constraint api_key_pkey PRIMARY KEY (id),
  constraint api_key_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE UNIQUE INDEX api_key_admin_name ON api_key (name) WHERE ((tenant_id IS NULL) AND (revoked_at IS NULL));
CREATE UNIQUE INDEX api_key_name ON api_key (tenant_id, name) WHERE (revoked_at IS NULL);
CREATE INDEX api_key_tenant ON api_key (tenant_id, id);

create table attempt (
  job_id uuid not null,
  epoch integer not null,
  attempt integer not null,
  lease_id bigint not null,
  started_at timestamp with time zone not null,
  ended_at timestamp with time zone not null,
  outcome lease_end not null,
  worker text,
  error text,
  constraint attempt_pkey PRIMARY KEY (job_id, epoch)
) with (autovacuum_vacuum_scale_factor = 0.02);

create table audit_event (
  id uuid not null,
  at timestamp with time zone default clock_timestamp() not null,
  tenant_id uuid,
  action text not null,
  target text not null,
  refused boolean default false not null,
  actor_kind text not null,
  actor_id text not null,
  actor_name text not null,
  before jsonb,
  after jsonb,
  request_id text not null,
  address text not null,
  constraint audit_event_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_event_at ON audit_event (at);
CREATE INDEX audit_event_tenant ON audit_event (tenant_id, id);

create table backlog_alert (
  webhook_id uuid not null,
  queue_id integer not null,
  since timestamp with time zone default clock_timestamp() not null,
  constraint backlog_alert_pkey PRIMARY KEY (webhook_id, queue_id),
  constraint backlog_alert_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhook(id) ON DELETE CASCADE
);

create table dead (
  job_id uuid not null,
  ended_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  lease_id bigint,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  visibility_timeout integer,
  max_attempts integer,
  rank smallint not null,
  reason dead_reason not null,
  ended lease_end not null,
  constraint dead_pkey PRIMARY KEY (job_id)
);
CREATE INDEX dead_queue ON dead (queue_id, ended_at, job_id);

create table event (
  seq bigint generated always as identity not null,
  id uuid default gen_random_uuid() not null,
  at timestamp with time zone default clock_timestamp() not null,
  tenant_id uuid not null,
  type text not null,
  queue text collate "C",
  webhook_id uuid,
  job_id uuid,
  data jsonb not null,
  constraint event_pkey PRIMARY KEY (seq)
) with (autovacuum_vacuum_scale_factor = 0.02);

create table finished (
  job_id uuid not null,
  started_at timestamp with time zone,
  ended_at timestamp with time zone not null,
  lease_id bigint,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  rank smallint not null,
  state finished_state not null,
  ended lease_end not null,
  worker text,
  result bytea,
  constraint finished_pkey PRIMARY KEY (job_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX finished_queue ON finished (queue_id, ended_at, job_id);

create table idempotency (
  queue_id integer not null,
  key text collate "C" not null,
  job_id uuid not null,
  fingerprint bytea not null,
  expires_at timestamp with time zone not null,
  constraint idempotency_pkey PRIMARY KEY (queue_id, key)
) with (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

create table job (
  id uuid not null,
  queue_id integer not null,
  kind text,
  payload bytea,
  content_type text,
  is_json boolean not null,
  headers text,
  priority smallint not null,
  max_attempts integer,
  visibility_timeout integer,
  retry jsonb,
  idempotency_key text,
  expires_at timestamp with time zone,
  run_at timestamp with time zone not null,
  created_at timestamp with time zone not null,
  dead_from text,
  dead_from_reason dead_reason,
  constraint job_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_scale_factor = 0.02);

create table job_expiry (
  expires_at timestamp with time zone not null,
  job_id uuid not null,
  constraint job_expiry_pkey PRIMARY KEY (expires_at, job_id)
);

create table lease (
  job_id uuid not null,
  lease_id bigint not null,
  leased_at timestamp with time zone not null,
  lease_expires_at timestamp with time zone not null,
  max_until timestamp with time zone,
  expires_at timestamp with time zone,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  duration integer not null,
  visibility_timeout integer,
  max_attempts integer,
  rank smallint not null,
  cancel_requested boolean default false not null,
  worker text,
  progress text,
  constraint lease_pkey PRIMARY KEY (job_id)
) with (autovacuum_enabled = off, fillfactor = 60);

create table limit_usage (
  instance_id uuid not null,
  subject_id uuid not null,
  requests real not null,
  jobs real not null,
  parked integer not null,
  streams integer not null,
  reported_at timestamp with time zone not null,
  constraint limit_usage_pkey PRIMARY KEY (subject_id, instance_id)
) with (fillfactor = 50);

create table migration (
  number integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamp with time zone default clock_timestamp() not null,
  compatible_from integer,
  constraint migration_pkey PRIMARY KEY (number)
);

create table queue (
  id integer generated always as identity not null,
  tenant_id uuid not null,
  name text collate "C" not null,
  visibility_timeout integer default 30000 not null,
  max_attempts integer default 5 not null,
  retry jsonb default '{"max": 3600000, "type": "exponential", "factor": 2, "jitter": 0.2, "initial": 10000}'::jsonb not null,
  max_lease_duration bigint,
  retain_completed bigint default 86400000 not null,
  retain_payload bigint,
  retain_dead bigint default '2592000000'::bigint not null,
  idempotency_window bigint default 86400000 not null,
  max_payload_bytes integer,
  max_in_flight integer,
  rate_limit_jobs integer,
  rate_limit_per bigint,
  max_backlog bigint,
  dead_letter_queue_id integer,
  paused_at timestamp with time zone,
  closed_at timestamp with time zone,
  closing boolean default false not null,
  cut bigint default 0 not null,
  bodies_pruned_to timestamp with time zone default '-infinity'::timestamp with time zone not null,
  mark bigint[] default '{0,0,0}'::bigint[] not null,
  mark_at timestamp with time zone default now() not null,
  earlier_mark bigint[] default '{0,0,0}'::bigint[] not null,
  earlier_mark_at timestamp with time zone default now() not null,
  created_at timestamp with time zone default now() not null,
  updated_at timestamp with time zone default now() not null,
  closing_act jsonb,
  constraint queue_pkey PRIMARY KEY (id),
  constraint queue_dead_letter_queue_id_fkey FOREIGN KEY (dead_letter_queue_id) REFERENCES queue(id),
  constraint queue_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
);
CREATE INDEX queue_closed ON queue (id) WHERE (closed_at IS NOT NULL);
CREATE INDEX queue_dead_letter ON queue (dead_letter_queue_id) WHERE (dead_letter_queue_id IS NOT NULL);
CREATE UNIQUE INDEX queue_name ON queue (tenant_id, name) WHERE ((closed_at IS NULL) OR closing);
CREATE INDEX queue_purged ON queue (id) WHERE (cut > 0);
CREATE INDEX queue_tenant ON queue (tenant_id);

create table queue_count (
  queue_id integer not null,
  scheduled bigint default 0 not null,
  ready bigint default 0 not null,
  leased bigint default 0 not null,
  dead bigint default 0 not null,
  enqueued bigint default 0 not null,
  completed bigint default 0 not null,
  failed bigint default 0 not null
) with (autovacuum_enabled = off);
CREATE INDEX queue_count_queue ON queue_count (queue_id);

create table queue_rate (
  queue_id integer not null,
  spent_until timestamp with time zone not null,
  constraint queue_rate_pkey PRIMARY KEY (queue_id)
) with (fillfactor = 50);

create table ready (
  queue_id integer not null,
  rank smallint not null,
  pos bigint default nextval('pos'::regclass) not null,
  job_id uuid not null,
  ready_at timestamp with time zone not null,
  expires_at timestamp with time zone,
  lease_id bigint,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  visibility_timeout integer,
  max_attempts integer,
  ended lease_end not null,
  constraint ready_job UNIQUE (job_id),
  constraint ready_pkey PRIMARY KEY (queue_id, rank, pos)
) with (autovacuum_enabled = off);

create table schedule (
  id uuid not null,
  tenant_id uuid not null,
  name text collate "C" not null,
  revision integer default 1 not null,
  cron text,
  every bigint,
  time_zone text not null,
  anchor_at timestamp with time zone not null,
  start_at timestamp with time zone,
  end_at timestamp with time zone,
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
  paused_at timestamp with time zone,
  next_fire_at timestamp with time zone,
  look_at timestamp with time zone,
  last_fire_at timestamp with time zone,
  last_job_id uuid,
  missed bigint default 0 not null,
  skipped bigint default 0 not null,
  failures integer default 0 not null,
  error text,
  error_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  updated_at timestamp with time zone default now() not null,
  constraint schedule_tenant_id_name_key UNIQUE (tenant_id, name),
  constraint schedule_pkey PRIMARY KEY (id),
  constraint schedule_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id),
  constraint schedule_check CHECK (((cron IS NULL) <> (every IS NULL))),
  constraint schedule_every_check CHECK ((every >= 1000))
) with (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 70);
CREATE INDEX schedule_due ON schedule (look_at) WHERE (look_at IS NOT NULL);

create table schedule_fire (
  schedule_id uuid not null,
  fire_at timestamp with time zone not null,
  job_id uuid not null,
  constraint schedule_fire_pkey PRIMARY KEY (schedule_id, fire_at)
) with (autovacuum_vacuum_scale_factor = 0.02);

create table scheduled (
  due_at timestamp with time zone not null,
  job_id uuid not null,
  pos bigint default nextval('pos'::regclass) not null,
  expires_at timestamp with time zone,
  lease_id bigint,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  visibility_timeout integer,
  max_attempts integer,
  rank smallint not null,
  ended lease_end not null,
  constraint scheduled_job UNIQUE (job_id),
  constraint scheduled_pkey PRIMARY KEY (due_at, job_id)
) with (autovacuum_enabled = off);
CREATE INDEX scheduled_queue ON scheduled (queue_id, due_at, job_id);

create table tenant (
  id uuid not null,
  name text collate "C" not null,
  auto_create_queues boolean default true not null,
  created_at timestamp with time zone default now() not null,
  limits jsonb default '{}'::jsonb not null,
  suspended_at timestamp with time zone,
  closed_at timestamp with time zone,
  constraint tenant_pkey PRIMARY KEY (id)
);
CREATE INDEX tenant_closed ON tenant (id) WHERE (closed_at IS NOT NULL);
CREATE UNIQUE INDEX tenant_name ON tenant (name) WHERE (closed_at IS NULL);

create table webhook (
  id uuid not null,
  tenant_id uuid not null,
  name text collate "C" not null,
  queue_id integer not null,
  url text not null,
  events text[] not null,
  queues text[],
  backlog_depth bigint,
  backlog_age bigint,
  include_payload boolean not null,
  max_in_flight integer not null,
  secret text not null,
  previous_secret text,
  previous_until timestamp with time zone,
  paused_at timestamp with time zone,
  disabled_at timestamp with time zone,
  failures integer default 0 not null,
  opened integer default 0 not null,
  open_until timestamp with time zone,
  dropped bigint default 0 not null,
  last_error text,
  last_error_at timestamp with time zone,
  created_at timestamp with time zone default now() not null,
  updated_at timestamp with time zone default now() not null,
  constraint webhook_queue_id_key UNIQUE (queue_id),
  constraint webhook_tenant_id_name_key UNIQUE (tenant_id, name),
  constraint webhook_pkey PRIMARY KEY (id),
  constraint webhook_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenant(id)
) with (fillfactor = 70);
CREATE INDEX webhook_backlog ON webhook (id) WHERE ('queue.backlog'::text = ANY (events));
CREATE INDEX webhook_job_dead ON webhook (tenant_id) WHERE ('job.dead'::text = ANY (events));

create view job_state as
 SELECT r.job_id, r.queue_id, 'ready'::text AS state, r.rank, r.epoch, r.lease_id, r.ended, r.attempt, r.releases,
    NULL::timestamp with time zone AS due_at, NULL::text AS worker, NULL::timestamp with time zone AS started_at,
    NULL::timestamp with time zone AS lease_expires_at, false AS cancel_requested, NULL::text AS progress,
    NULL::timestamp with time zone AS ended_at, NULL::dead_reason AS reason, NULL::bytea AS result
   FROM ready r
  WHERE r.pos > (( SELECT q.cut
           FROM queue q
          WHERE q.id = r.queue_id))
UNION ALL
 SELECT s.job_id, s.queue_id, 'scheduled'::text AS state, s.rank, s.epoch, s.lease_id, s.ended, s.attempt, s.releases,
    s.due_at, NULL::text AS worker, NULL::timestamp with time zone AS started_at,
    NULL::timestamp with time zone AS lease_expires_at, false AS cancel_requested, NULL::text AS progress,
    NULL::timestamp with time zone AS ended_at, NULL::dead_reason AS reason, NULL::bytea AS result
   FROM scheduled s
  WHERE s.pos > (( SELECT q.cut
           FROM queue q
          WHERE q.id = s.queue_id))
UNION ALL
 SELECT l.job_id, l.queue_id, 'leased'::text AS state, l.rank, l.epoch, l.lease_id, 'none'::lease_end AS ended,
    l.attempt, l.releases, NULL::timestamp with time zone AS due_at, l.worker, l.leased_at AS started_at,
    l.lease_expires_at, l.cancel_requested, l.progress, NULL::timestamp with time zone AS ended_at,
    NULL::dead_reason AS reason, NULL::bytea AS result
   FROM lease l
UNION ALL
 SELECT d.job_id, d.queue_id, 'dead'::text AS state, d.rank, d.epoch, d.lease_id, d.ended, d.attempt, d.releases,
    NULL::timestamp with time zone AS due_at, NULL::text AS worker, NULL::timestamp with time zone AS started_at,
    NULL::timestamp with time zone AS lease_expires_at, false AS cancel_requested, NULL::text AS progress, d.ended_at,
    d.reason, NULL::bytea AS result
   FROM dead d
UNION ALL
 SELECT f.job_id, f.queue_id, f.state::text AS state, f.rank, f.epoch, f.lease_id, f.ended, f.attempt, f.releases,
    NULL::timestamp with time zone AS due_at, f.worker, f.started_at, NULL::timestamp with time zone AS lease_expires_at,
    false AS cancel_requested, NULL::text AS progress, f.ended_at, NULL::dead_reason AS reason, f.result
   FROM finished f;

CREATE OR REPLACE FUNCTION stint.record_deaths()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
$function$
;

CREATE OR REPLACE FUNCTION stint.record_schedule_failure()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  insert into stint.event (at, tenant_id, type, queue, data)
  select new.error_at, new.tenant_id, 'schedule.failed', new.queue, jsonb_build_object(
    'schedule', new.name, 'queue', new.queue, 'error', new.error,
    'fireAt', to_char(new.next_fire_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'failedAt', to_char(new.error_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
  where exists (select from stint.webhook w where w.tenant_id = new.tenant_id and 'schedule.failed' = any(w.events));
  return null;
end
$function$
;

CREATE TRIGGER job_dead AFTER INSERT ON dead REFERENCING NEW TABLE AS died FOR EACH STATEMENT EXECUTE FUNCTION record_deaths();

CREATE TRIGGER schedule_failed AFTER UPDATE OF failures ON schedule FOR EACH ROW WHEN (old.failures = 0 AND new.failures > 0) EXECUTE FUNCTION record_schedule_failure();
