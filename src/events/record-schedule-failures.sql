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
