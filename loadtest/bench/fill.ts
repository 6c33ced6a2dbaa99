import type pg from 'pg';
import { payload } from './bodies.js';
import { query, withClient } from './sql.js';

const CHUNK = 50_000;

/** Where filled jobs stand. */
export type Place = 'ready' | 'scheduled' | 'finished' | 'dead';

/**
 * Puts jobs into an existing queue in the shape in which the service writes them, much faster than it could. Nothing is
 * analysed. Scheduled ones are due at `dueAt`, in seconds since 1970.
 */
export async function fill(
  url: string,
  stock: { readonly queue: string; readonly place: Place; readonly rows: number; readonly dueAt?: number },
): Promise<void> {
  const queueId = await queueIdOf(url, stock.queue);
  await withClient(url, async (client) => {
    for (let done = 0; done < stock.rows; done += CHUNK) {
      const rows = Math.min(CHUNK, stock.rows - done);
      await insertChunk(client, { ...stock, rows, queueId });
    }
    await client.query('checkpoint');
  });
}

export async function queueIdOf(url: string, name: string): Promise<number> {
  const [queue] = await query<{ id: number }>(url, 'select id from queue where name = $1 and closed_at is null', [
    name,
  ]);
  if (queue === undefined) throw new Error(`no queue ${name} to fill`);
  return queue.id;
}

interface Chunk {
  readonly queueId: number;
  readonly place: Place;
  readonly rows: number;
  readonly dueAt?: number;
}

async function insertChunk(
  client: pg.Client,
  { queueId, place, rows, dueAt = Date.now() / 1_000 }: Chunk,
): Promise<void> {
  await client.query('begin');
  const body = payload();
  await client.query(MAKE);
  await client.query(JOBS, [queueId, rows, body, dueAt]);
  switch (place) {
    case 'ready':
      await client.query(READY, [queueId, body.length]);
      break;
    case 'scheduled':
      await client.query(SCHEDULED, [queueId, body.length]);
      break;
    case 'finished':
      await client.query(FINISHED, [queueId]);
      break;
    case 'dead':
      await client.query(DEAD, [queueId, body.length]);
  }
  const counts = place === 'finished' ? COUNT_FINISHED : COUNT[place];
  await client.query(counts, [queueId, rows]);
  await client.query('commit');
}

const MAKE = 'create temp table if not exists filled (id uuid, run_at timestamptz) on commit delete rows';

const JOBS = `with made as (
  insert into job (id, queue_id, kind, payload, is_json, priority, run_at, created_at)
  select uuidv7(), $1::int, 'bench', convert_to($3::text, 'UTF8'), true, 0, to_timestamp($4::float8), now()
  from generate_series(1, $2::int)
  returning id, run_at
)
insert into filled select id, run_at from made`;

const READY = `insert into ready (queue_id, rank, job_id, ready_at, epoch, attempt, releases, size, ended)
select $1::int, 0, id, now(), 0, 0, 0, $2::int, 'none' from filled`;

const SCHEDULED = `insert into scheduled (due_at, job_id, queue_id, rank, epoch, attempt, releases, size, ended)
select run_at, id, $1::int, 0, 0, 0, 0, $2::int, 'none' from filled`;

const FINISHED = `insert into finished (job_id, queue_id, rank, state, ended, epoch, lease_id, attempt, releases, started_at, ended_at)
select id, $1::int, 0, 'completed', 'acked', 1, (random() * 9e18)::bigint, 1, 0, now(), now() from filled`;

const DEAD = `insert into dead (job_id, ended_at, lease_id, queue_id, epoch, attempt, releases, size, rank, reason, ended)
select id, now(), (random() * 9e18)::bigint, $1::int, 5, 5, 0, $2::int, 0, 'attempts_spent', 'nacked' from filled`;

const COUNT = {
  ready: 'insert into queue_count (queue_id, ready, enqueued) values ($1::int, $2::bigint, $2::bigint)',
  scheduled: 'insert into queue_count (queue_id, scheduled, enqueued) values ($1::int, $2::bigint, $2::bigint)',
  dead: 'insert into queue_count (queue_id, dead, enqueued, failed) values ($1::int, $2::bigint, $2::bigint, $2::bigint)',
} as const;

const COUNT_FINISHED =
  'insert into queue_count (queue_id, enqueued, completed) values ($1::int, $2::bigint, $2::bigint)';
