import type { Statement } from '../db/pool.js';

/**
 * Who sends dead jobs where: changes of these references wait for one another, so that no two of them make a cycle together
 * and none comes to point at a queue that is being deleted.
 */
// A lock that new queues, whose foreign key takes KEY SHARE, do not wait for.
export const LOCK_DEAD_LETTERS: Statement = {
  name: 'dead-letters-lock',
  text: `select id from tenant where id = $1::uuid for no key update`,
};

// May run beside everything; answers no row when the tenant has a queue of that name, or is just deleting it.
export const MAKE_QUEUE: Statement = {
  name: 'queue-make',
  text: `insert into queue (tenant_id, name)
values ($1::uuid, $2)
on conflict (tenant_id, name) where closed_at is null do nothing
returning id`,
};

// Follows the references from queue to queue; primary key.
export const CYCLE: Statement = {
  name: 'dead-letters-cycle',
  text: `with recursive onward(id) as (
  select dead_letter_queue_id from queue where id = $1::int
  union
  select q.dead_letter_queue_id from onward join queue q on q.id = onward.id
)
select exists (select from onward where id = $1::int) as cycle,
  not exists (select from queue where id = $1::int and dead_letter_queue_id is not null) as missing`,
};
