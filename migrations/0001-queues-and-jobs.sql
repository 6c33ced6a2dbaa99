-- Why: the first shape of everything. A job's body is written once; where the job stands is one skinny row in exactly one of
-- ready, scheduled, lease, dead, finished, so that the hot statements touch small rows and leave few dead ones behind.

-- How the last lease of a job ended; decides what a later call with its token is told.
create type lease_end as enum ('none', 'acked', 'nacked', 'released', 'expired', 'undelivered', 'cancelled');
create type dead_reason as enum ('attempts_spent', 'final', 'expired', 'body_missing');
create type finished_state as enum ('completed', 'cancelled');

create table tenant (
  id uuid primary key,
  name text collate "C" not null unique,
  auto_create_queues boolean not null default true,
  created_at timestamptz not null default now()
);

-- A key without a tenant is an administrator's. Only a hash of the secret is kept.
create table api_key (
  id uuid primary key,
  tenant_id uuid references tenant,
  name text collate "C" not null,
  secret_hash bytea not null unique,
  scopes text[] not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz
);
create unique index api_key_name on api_key (tenant_id, name) where revoked_at is null;
create index api_key_tenant on api_key (tenant_id, id);

-- Durations are milliseconds. Ids are never used again: a queue made anew under an old name is another queue.
-- Ready and scheduled rows at or before `cut` are purged: nobody may lease, find or count them; a task deletes them.
-- `closing` is set beside closed_at while a delete that is not forced looks for late arrivals: gone for readers, the name not free yet.
-- Bodies of jobs that finished before `bodies_pruned_to` are pruned already. The marks are {enqueued, completed, failed} as they
-- stood at two instants: what rates are told from.
create table queue (
  id integer generated always as identity primary key,
  tenant_id uuid not null references tenant,
  name text collate "C" not null,
  visibility_timeout integer not null default 30000,
  max_attempts integer not null default 5,
  retry jsonb not null default '{"type": "exponential", "initial": 10000, "factor": 2, "max": 3600000, "jitter": 0.2}',
  max_lease_duration bigint,
  retain_completed bigint not null default 86400000,
  retain_payload bigint,
  retain_dead bigint not null default 2592000000,
  idempotency_window bigint not null default 86400000,
  max_payload_bytes integer,
  max_in_flight integer,
  rate_limit_jobs integer,
  rate_limit_per bigint,
  max_backlog bigint,
  dead_letter_queue_id integer references queue,
  paused_at timestamptz,
  closed_at timestamptz,
  closing boolean not null default false,
  cut bigint not null default 0,
  bodies_pruned_to timestamptz not null default '-infinity',
  mark bigint[] not null default '{0,0,0}',
  mark_at timestamptz not null default now(),
  earlier_mark bigint[] not null default '{0,0,0}',
  earlier_mark_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index queue_name on queue (tenant_id, name) where closed_at is null or closing;
create index queue_closed on queue (id) where closed_at is not null;
create index queue_purged on queue (id) where cut > 0;
create index queue_dead_letter on queue (dead_letter_queue_id) where dead_letter_queue_id is not null;

-- Written once, never updated on the hot path. No foreign key and no second unique key, so that it can be partitioned by id later.
-- The payload is never interpreted here; headers are JSON text, since jsonb refuses legal JSON.
create table job (
  id uuid primary key,
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
  expires_at timestamptz,
  run_at timestamptz not null,
  created_at timestamptz not null,
  dead_from text,
  dead_from_reason dead_reason
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- The order of becoming ready, over all queues. Taken anew on every (re-)entry.
create sequence pos cache 1;

-- The limits that claims and settles need (expires_at, size, visibility_timeout, max_attempts) travel with the job's place, so
-- that these statements need not read the body. `attempt` counts attempts spent.
create table ready (
  queue_id integer not null,
  rank smallint not null,
  pos bigint not null default nextval('pos'),
  job_id uuid not null,
  ready_at timestamptz not null,
  expires_at timestamptz,
  lease_id bigint,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  visibility_timeout integer,
  max_attempts integer,
  ended lease_end not null,
  primary key (queue_id, rank, pos),
  constraint ready_job unique (job_id)
) with (autovacuum_enabled = off);

create table scheduled (
  due_at timestamptz not null,
  job_id uuid not null,
  pos bigint not null default nextval('pos'),
  expires_at timestamptz,
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
  primary key (due_at, job_id),
  constraint scheduled_job unique (job_id)
) with (autovacuum_enabled = off);
create index scheduled_queue on scheduled (queue_id, due_at, job_id);

-- No index on lease_expires_at: it would halve the rate of heartbeats and end heap-only updates. `attempt` is the one under way.
create table lease (
  job_id uuid primary key,
  lease_id bigint not null,
  leased_at timestamptz not null,
  lease_expires_at timestamptz not null,
  max_until timestamptz,
  expires_at timestamptz,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  size integer not null,
  duration integer not null,
  visibility_timeout integer,
  max_attempts integer,
  rank smallint not null,
  cancel_requested boolean not null default false,
  worker text,
  progress text
) with (autovacuum_enabled = off, fillfactor = 60);

create table dead (
  job_id uuid primary key,
  ended_at timestamptz not null,
  expires_at timestamptz,
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
  ended lease_end not null
);
create index dead_queue on dead (queue_id, ended_at, job_id);

create table finished (
  job_id uuid primary key,
  started_at timestamptz,
  ended_at timestamptz not null,
  lease_id bigint,
  queue_id integer not null,
  epoch integer not null,
  attempt integer not null,
  releases integer not null,
  rank smallint not null,
  state finished_state not null,
  ended lease_end not null,
  worker text,
  result bytea
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);
create index finished_queue on finished (queue_id, ended_at, job_id);

-- One row per lease that ended otherwise than by its ack; that one stands in finished. `error` is JSON text.
create table attempt (
  job_id uuid not null,
  epoch integer not null,
  attempt integer not null,
  lease_id bigint not null,
  started_at timestamptz not null,
  ended_at timestamptz not null,
  outcome lease_end not null,
  worker text,
  error text,
  primary key (job_id, epoch)
) with (autovacuum_vacuum_scale_factor = 0.02);

create table idempotency (
  queue_id integer not null,
  key text collate "C" not null,
  job_id uuid not null,
  fingerprint bytea not null,
  expires_at timestamptz not null,
  primary key (queue_id, key)
) with (autovacuum_vacuum_scale_factor = 0.02);
create index idempotency_expiry on idempotency (expires_at);

-- Only jobs that have an expiry.
create table job_expiry (
  expires_at timestamptz not null,
  job_id uuid not null,
  primary key (expires_at, job_id)
);

-- Changes of the counts, one row per statement and queue, in the statement's own transaction; a task folds them. The sum is exact.
-- enqueued, completed and failed only rise.
create table queue_count (
  queue_id integer not null,
  scheduled bigint not null default 0,
  ready bigint not null default 0,
  leased bigint not null default 0,
  dead bigint not null default 0,
  enqueued bigint not null default 0,
  completed bigint not null default 0,
  failed bigint not null default 0
) with (autovacuum_enabled = off);
create index queue_count_queue on queue_count (queue_id);

-- The instant until which a queue with a rate limit has spent its allowance (the generic cell rate algorithm's theoretical arrival
-- time). Changed only under the queue's advisory lock.
create table queue_rate (
  queue_id integer primary key,
  spent_until timestamptz not null
) with (fillfactor = 50);

-- One shape for readers of a single job, whichever table it stands in. Purged rows are not in it.
create view job_state as
  select r.job_id, r.queue_id, 'ready' as state, r.rank, r.epoch, r.lease_id, r.ended, r.attempt, r.releases,
         null::timestamptz as due_at, null::text as worker, null::timestamptz as started_at,
         null::timestamptz as lease_expires_at, false as cancel_requested, null::text as progress,
         null::timestamptz as ended_at, null::dead_reason as reason, null::bytea as result
  from ready r where r.pos > (select q.cut from queue q where q.id = r.queue_id)
  union all
  select s.job_id, s.queue_id, 'scheduled', s.rank, s.epoch, s.lease_id, s.ended, s.attempt, s.releases,
         s.due_at, null, null, null, false, null, null, null, null
  from scheduled s where s.pos > (select q.cut from queue q where q.id = s.queue_id)
  union all
  select l.job_id, l.queue_id, 'leased', l.rank, l.epoch, l.lease_id, 'none'::lease_end, l.attempt, l.releases,
         null, l.worker, l.leased_at, l.lease_expires_at, l.cancel_requested, l.progress, null, null, null
  from lease l
  union all
  select d.job_id, d.queue_id, 'dead', d.rank, d.epoch, d.lease_id, d.ended, d.attempt, d.releases,
         null, null, null, null, false, null, d.ended_at, d.reason, null
  from dead d
  union all
  select f.job_id, f.queue_id, f.state::text, f.rank, f.epoch, f.lease_id, f.ended, f.attempt, f.releases,
         null, f.worker, f.started_at, null, false, null, f.ended_at, null, f.result
  from finished f;
