import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const BATCH = 2000;
const MINUTE_MS = 60_000;

/** Deletes events of the audit log that are older than so many days; nothing else ever takes one away. */
export function createPruneAudit(retentionDays: number): Task {
  return {
    name: 'prune-audit',
    every: MINUTE_MS,
    whenIdle: 30 * MINUTE_MS,
    run: async ({ database }: Engine) => {
      const [row] = await database.tasks.query<{ events: number }>(PRUNE, [retentionDays, BATCH]);
      return { counts: { events: row!.events }, again: row!.events === BATCH };
    },
  };
}

// Locks up to $2 rows, the oldest first (index audit_event_at), passing over those that another instance's run holds.
const PRUNE: Statement = {
  name: 'prune-audit',
  text: `with gone as (
  delete from audit_event
  where id = any(array(
    select id
    from audit_event
    where at < clock_timestamp() - $1::int * interval '1 day'
    order by at
    limit $2::int
    for update skip locked))
  returning 1
)
select count(*)::int as events from gone`,
};
