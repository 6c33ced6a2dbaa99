-- Why: one installation serves many teams. Tenants have limits, can be suspended and deleted; keys can be bound to queues, expire,
-- have limits of their own and be rotated with an overlap; every administrative act is on record.

alter table tenant
  add column limits jsonb not null default '{}',
  add column suspended_at timestamptz,
  add column closed_at timestamptz;

-- The name of a tenant that is being deleted is free at once.
alter table tenant drop constraint tenant_name_key;
create unique index tenant_name on tenant (name) where closed_at is null;
-- Every queue of a tenant, closed ones too, when it is deleted.
create index queue_tenant on queue (tenant_id);
create index tenant_closed on tenant (id) where closed_at is not null;

-- `queues` are patterns; without them a key may use every queue. The hash of a secret that was rotated out counts until
-- `previous_until`.
alter table api_key
  add column queues text[],
  add column limits jsonb not null default '{}',
  add column previous_hash bytea,
  add column previous_until timestamptz,
  add column last_used_at timestamptz;
create unique index api_key_admin_name on api_key (name) where tenant_id is null and revoked_at is null;

-- Who began to delete a queue that is closing, for the audit log: whoever finishes the deletion records it as theirs.
alter table queue add column closing_act jsonb;

-- Written once and never changed; it outlives what it tells of, so it refers to nothing. `tenant_id` is whose log the event is in;
-- what was done outside any tenant has none.
create table audit_event (
  id uuid primary key,
  at timestamptz not null default clock_timestamp(),
  tenant_id uuid,
  action text not null,
  target text not null,
  refused boolean not null default false,
  actor_kind text not null,
  actor_id text not null,
  actor_name text not null,
  before jsonb,
  after jsonb,
  request_id text not null,
  address text not null
);
create index audit_event_tenant on audit_event (tenant_id, id);
create index audit_event_at on audit_event (at);

-- What each instance has lately seen of the use of a limited tenant or key, so that all of them together keep to the limit. Worth
-- nothing after a crash.
create unlogged table limit_usage (
  instance_id uuid not null,
  subject_id uuid not null,
  requests real not null,
  jobs real not null,
  parked integer not null,
  streams integer not null,
  reported_at timestamptz not null,
  primary key (subject_id, instance_id)
) with (fillfactor = 50);
