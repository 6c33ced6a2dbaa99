import { formatDuration } from '../core/duration.js';
import type { Connections, Statement } from '../db/pool.js';

const CHUNK = 50;
/** A queue has cleared when it is this far below what it crossed, so that one that hovers there is not told of again and again. */
const CLEARED_AT = 0.8;

export interface Watched {
  readonly crossed: number;
  readonly cleared: number;
  readonly webhooks: number;
}

/**
 * Compares every queue with the thresholds of the webhooks that watch it, and writes an event down for each that has crossed one since the
 * last look, and for each that has cleared. Whoever looks at the same time: it is told once, by who has changed the row of the alert.
 */
export async function watchBacklogs(connections: Connections): Promise<Watched> {
  const total = { crossed: 0, cleared: 0, webhooks: 0 };
  let after: string | undefined = BEGINNING;
  while (after !== undefined) {
    const ids: readonly string[] = await pageOf(connections, after);
    total.webhooks += ids.length;
    const looks = ids.length === 0 ? [] : await connections.query<Look>(LOOK, [ids, CLEARED_AT]);
    for (const look of looks) total[look.isOver ? 'crossed' : 'cleared'] += await tell(connections, look);
    after = ids.length === CHUNK ? ids.at(-1) : undefined;
  }
  return total;
}

async function pageOf(connections: Connections, after: string): Promise<readonly string[]> {
  const [page] = await connections.query<{ ids: readonly string[] }>(PAGE, [after, CHUNK]);
  return page!.ids;
}

/** Answers 1 when it was told by this, 0 when somebody else has told it. */
async function tell(connections: Connections, look: Look): Promise<number> {
  const { webhookId, queueId, tenantId, queue, isOver } = look;
  const values = [webhookId, queueId, tenantId, queue, JSON.stringify(dataOf(look))];
  return (await connections.query(isOver ? CROSS : CLEAR, values)).length;
}

const BEGINNING = '00000000-0000-0000-0000-000000000000';

/** A queue that is over and has not been told of, or is clear and has. */
interface Look {
  readonly webhookId: string;
  readonly tenantId: string;
  readonly queueId: number;
  readonly queue: string;
  readonly depth: number;
  /** Milliseconds. */
  readonly age: number | null;
  readonly mostDepth: number | null;
  readonly mostAge: number | null;
  readonly isOver: boolean;
}

function dataOf({ queue, isOver, depth, age, mostDepth, mostAge }: Look) {
  return {
    queue,
    state: isOver ? 'over' : 'cleared',
    depth,
    oldestAge: age === null ? undefined : formatDuration(Math.round(age)),
    threshold: {
      depth: mostDepth ?? undefined,
      oldestAge: mostAge === null ? undefined : formatDuration(mostAge),
    },
  };
}

// Walks the index webhook_backlog. Alerts of queues that are deleted are dropped by the way: such a queue is not told to have cleared.
const PAGE: Statement = {
  name: 'backlogs-page',
  text: `with dropped as (
  delete from backlog_alert a where not exists (select from queue q where q.id = a.queue_id and q.closed_at is null)
)
select coalesce(array_agg(id order by id), '{}') as ids
from (
  select id from webhook
  where 'queue.backlog' = any(events) and id > $1::uuid
  order by id
  limit $2::int) page`,
};

// Reads only. Of each queue that a webhook watches (index queue_tenant): the few rows its counts are the sum of (queue_count_queue), and
// where the age counts, the first row of each lane (ready's primary key).
const LOOK: Statement = {
  name: 'backlogs-look',
  text: `with watched as materialized (
  select w.id, w.tenant_id, w.backlog_depth, w.backlog_age, q.id as queue_id, q.name, q.cut, a.queue_id is not null as told
  from webhook w
  join tenant t on t.id = w.tenant_id and t.suspended_at is null and t.closed_at is null
  join queue q on q.tenant_id = w.tenant_id and q.closed_at is null
    and (w.queues is null or exists (
      select from unnest(w.queues) as pattern
      where case when right(pattern, 1) = '*' then starts_with(q.name, left(pattern, -1)) else q.name = pattern end))
  left join backlog_alert a on a.webhook_id = w.id and a.queue_id = q.id
  where w.id = any($1::uuid[]) and w.disabled_at is null
),
measured as materialized (
  select watched.*, c.depth, age.ms as age
  from watched
  cross join lateral (
    select coalesce(sum(ready), 0) as depth from queue_count where queue_count.queue_id = watched.queue_id) c
  left join lateral (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = watched.queue_id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = watched.queue_id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select (extract(epoch from clock_timestamp() - min(head.ready_at)) * 1000)::float8 as ms
    from lane
    cross join lateral (
      select r.ready_at from ready r
      where r.queue_id = watched.queue_id and r.rank = lane.rank and r.pos > watched.cut
      order by r.pos limit 1) head
    where watched.backlog_age is not null and c.depth > 0) age on true
)
select id as "webhookId", tenant_id as "tenantId", queue_id as "queueId", name as queue, depth::float8 as depth, age,
  backlog_depth::float8 as "mostDepth", backlog_age::float8 as "mostAge", not told as "isOver"
from measured
where case when told then
    coalesce(depth <= backlog_depth * $2::float8, true) and coalesce(age <= backlog_age * $2::float8, true)
  else coalesce(depth >= backlog_depth, false) or coalesce(age >= backlog_age, false) end`,
};

// Of several that insert the row the first tells; the others find it there.
const CROSS: Statement = {
  name: 'backlog-cross',
  text: `with alert as (
  insert into backlog_alert (webhook_id, queue_id)
  select w.id, $2::int from webhook w where w.id = $1::uuid
  on conflict do nothing
  returning webhook_id
)
insert into event (tenant_id, type, queue, webhook_id, data)
select $3::uuid, 'queue.backlog', $4::text, webhook_id, $5::jsonb from alert
returning 1`,
};

const CLEAR: Statement = {
  name: 'backlog-clear',
  text: `with alert as (
  delete from backlog_alert where webhook_id = $1::uuid and queue_id = $2::int returning webhook_id
)
insert into event (tenant_id, type, queue, webhook_id, data)
select $3::uuid, 'queue.backlog', $4::text, webhook_id, $5::jsonb from alert
returning 1`,
};
