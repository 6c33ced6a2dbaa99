import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const MOST_TENANTS = 20;
const CHUNK = 500;

/**
 * Deletes what closed tenants had: closes their queues, a chunk of each tenant a run, whose jobs the deletion of queues then
 * takes away; deletes their schedules, webhooks and keys; and at last the tenants themselves, when no queue is left. A queue that an instance makes which has not
 * heard of it yet is closed in a later run.
 */
export function createDeleteTenants(): Task {
  return {
    name: 'delete-tenants',
    every: 10_000,
    run: async ({ database, wakeups }: Engine) => {
      const tenants = await database.tasks.query<{ id: string }>(CLOSED, [MOST_TENANTS]);
      const counts = { queues: 0, schedules: 0, webhooks: 0, keys: 0, tenants: 0 };
      let again = false;
      for (const { id } of tenants) {
        const closed = await database.tasks.query<{ id: number }>(CLOSE_QUEUES, [id, CHUNK]);
        for (const queue of closed) wakeups.changed(queue.id);
        const schedules = await database.tasks.query(DELETE_SCHEDULES, [id, CHUNK]);
        const webhooks = await database.tasks.query<{ id: number }>(DELETE_WEBHOOKS, [id, CHUNK]);
        for (const queue of webhooks) wakeups.changed(queue.id);
        const keys = await database.tasks.query(DELETE_KEYS, [id, CHUNK]);
        const gone = await database.tasks.query(DELETE_TENANT, [id]);
        counts.queues += closed.length;
        counts.schedules += schedules.length;
        counts.webhooks += webhooks.length;
        counts.keys += keys.length;
        counts.tenants += gone.length;
        again ||= [closed, schedules, webhooks, keys].some(({ length }) => length === CHUNK);
      }
      return { counts, again };
    },
  };
}

// Reads only; index tenant_closed.
const CLOSED: Statement = {
  name: 'delete-tenants-closed',
  text: `select id from tenant where closed_at is not null order by id limit $1::int`,
};

// Locks up to $2 of the tenant's queues; those that were closed before are cleared of references, which would hold up the deletion of the
// queues that they name. Indexes queue_name and queue_closed.
const CLOSE_QUEUES: Statement = {
  name: 'delete-tenants-queues',
  text: `update queue
set closed_at = coalesce(closed_at, clock_timestamp()), closing = false, dead_letter_queue_id = null
where id = any(array(
  select id
  from queue
  where tenant_id = $1::uuid and (closed_at is null or closing)
  union all
  select id
  from queue
  where tenant_id = $1::uuid and closed_at is not null and not closing and dead_letter_queue_id is not null
  limit $2::int))
returning id`,
};

// Locks up to $2 of the tenant's schedules, by the unique index on (tenant_id, name); what an instance just fires is waited for.
const DELETE_SCHEDULES: Statement = {
  name: 'delete-tenants-schedules',
  text: `with gone as (
  delete from schedule
  where id = any(array(select id from schedule where tenant_id = $1::uuid order by id limit $2::int))
  returning id
),
fires as (
  delete from schedule_fire where schedule_id = any(array(select id from gone))
)
select id from gone`,
};

// The queues of their deliveries are closed with them. Unique index on (tenant_id, name); primary key of queue.
const DELETE_WEBHOOKS: Statement = {
  name: 'delete-tenants-webhooks',
  text: `with gone as (
  delete from webhook
  where id = any(array(select id from webhook where tenant_id = $1::uuid limit $2::int))
  returning queue_id
)
update queue set closed_at = clock_timestamp()
where id = any(array(select queue_id from gone)) and closed_at is null
returning id`,
};

// Index api_key_tenant.
const DELETE_KEYS: Statement = {
  name: 'delete-tenants-keys',
  text: `delete from api_key
where id = any(array(select id from api_key where tenant_id = $1::uuid limit $2::int))
returning id`,
};

// A queue that is made meanwhile holds the tenant by its foreign key: then this fails, and a later run closes that queue.
const DELETE_TENANT: Statement = {
  name: 'delete-tenants-row',
  text: `delete from tenant
where id = $1::uuid and closed_at is not null
  and not exists (select from queue where tenant_id = $1::uuid)
  and not exists (select from schedule where tenant_id = $1::uuid)
  and not exists (select from webhook where tenant_id = $1::uuid)
  and not exists (select from api_key where tenant_id = $1::uuid)
returning id`,
};
