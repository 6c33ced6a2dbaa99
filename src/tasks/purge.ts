import type { Connections, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

const CHUNK = 5000;
const MOST_QUEUES = 20;
const LOWEST = { rank: -32_768, pos: 0 };

/** What this instance knows of a purge under way. */
interface Progress {
  readonly cut: number;
  /** Database time, microseconds, at which the cut was first seen here: whoever began later sees it too. */
  readonly seenAt: number;
  /** Where in the order of claims the last chunk ended, so that the dead entries before it are not walked again. */
  readonly place: { readonly rank: number; readonly pos: number };
}

/**
 * Deletes the rows of purged jobs, a chunk of each purged queue a run, and takes the cut back when none can come any more: an
 * enqueue that drew its positions before the cut may commit later, so that waits until every transaction which began before
 * the cut was seen has ended.
 */
export function createPurge(): Task {
  const known = new Map<number, Progress>();

  async function purgeChunk(connections: Connections, queueId: number): Promise<number> {
    const { cut, place, seenAt } = known.get(queueId)!;
    const [chunk] = await connections.query<Chunk>(DELETE_CHUNK, [queueId, cut, place.rank, place.pos, CHUNK]);
    const { ready, scheduled, rank, pos } = chunk!;
    const full = ready === CHUNK && rank !== null && pos !== null;
    known.set(queueId, { cut, seenAt, place: full ? { rank, pos } : LOWEST });
    if (ready + scheduled === 0) await connections.query(TAKE_CUT_BACK, [queueId, cut, seenAt]);
    return ready + scheduled;
  }

  return {
    name: 'purge',
    every: 10_000,
    run: async ({ database }: Engine) => {
      const queues = await database.tasks.query<{ id: number; cut: number; now: number }>(PURGED_QUEUES, [MOST_QUEUES]);
      const listed = new Set(queues.map(({ id }) => id));
      for (const id of known.keys()) if (!listed.has(id)) known.delete(id);
      let purged = 0;
      for (const { id, cut, now } of queues) {
        if (known.get(id)?.cut !== cut) known.set(id, { cut, seenAt: now, place: LOWEST });
        purged += await purgeChunk(database.tasks, id);
      }
      return { counts: { purged }, again: purged > 0 };
    },
  };
}

interface Chunk {
  readonly ready: number;
  readonly scheduled: number;
  readonly rank: number | null;
  readonly pos: number | null;
}

// Reads only; index queue_purged.
const PURGED_QUEUES: Statement = {
  name: 'purge-queues',
  text: `select id, cut::float8 as cut, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now
from queue
where cut > 0 and closed_at is null
order by id
limit $1::int`,
};

// Locks up to $5 rows each of ready (primary key, in claim order from a place on) and scheduled (scheduled_queue), passing over
// those that a statement which began before the cut still holds; everything else of a job goes by what that deleted.
const DELETE_CHUNK: Statement = {
  name: 'purge-chunk',
  text: `with chosen as materialized (
  select r.ctid, r.rank, r.pos
  from ready r
  where r.queue_id = $1::int and (r.rank, r.pos) > ($3::smallint, $4::bigint) and r.pos <= $2::bigint
  order by r.rank, r.pos
  limit $5::int
  for update skip locked
),
gone_ready as (
  delete from ready where ctid = any(array(select ctid from chosen)) returning job_id
),
gone_scheduled as (
  delete from scheduled
  where ctid = any(array(
    select s.ctid from scheduled s where s.queue_id = $1::int and s.pos <= $2::bigint limit $5::int for update skip locked))
  returning job_id
),
gone as materialized (
  select job_id from gone_ready union all select job_id from gone_scheduled
),
bodies as (
  delete from job where id = any(array(select job_id from gone)) returning id, queue_id, idempotency_key, expires_at
),
attempts as (
  delete from attempt where job_id = any(array(select job_id from gone))
),
keys as (
  delete from idempotency i using bodies b
  where i.queue_id = b.queue_id and i.key = b.idempotency_key and i.job_id = b.id
),
expiries as (
  delete from job_expiry
  where (expires_at, job_id) in (select expires_at, id from bodies where expires_at is not null)
),
counted as (
  insert into queue_count (queue_id, ready, scheduled)
  select $1::int, -(select count(*) from gone_ready), -(select count(*) from gone_scheduled)
  where exists (select from gone)
)
select (select count(*) from gone_ready)::int as ready, (select count(*) from gone_scheduled)::int as scheduled,
  last.rank, last.pos::float8 as pos
from (select) one
left join (select rank, pos from chosen order by rank desc, pos desc limit 1) last on true`,
};

// Locks the queue's row. Takes back this very cut, not a later one, and only when no row before it is left or can come.
const TAKE_CUT_BACK: Statement = {
  name: 'purge-take-cut-back',
  text: `update queue
set cut = 0
where id = $1::int and cut = $2::bigint
  and not exists (select from ready r where r.queue_id = $1::int and r.pos <= $2::bigint)
  and not exists (select from scheduled s where s.queue_id = $1::int and s.pos <= $2::bigint)
  and not exists (
    select from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
      and xact_start <= timestamptz 'epoch' + $3::float8 * interval '1 microsecond')`,
};
