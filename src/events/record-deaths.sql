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
