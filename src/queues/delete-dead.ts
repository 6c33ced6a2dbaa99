import { Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Connections, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { BEGINNING, choiceParameters, DeadChoice } from './dead-filter.js';
import { noSuchQueue } from './queue.js';
import { recordedChoice, recordedQueue } from './recorded.js';

const BATCH = 1000;

export const deleteDead = defineOperation({
  name: 'DeleteDead',
  group: 'Queues',
  summary: 'Delete dead jobs',
  description:
    'Without `ids` and `filter`: all. Jobs that die after the call has begun are left alone. An idempotency key goes on to count ' +
    'for its window: the same enqueue again answers that its job is gone.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/queues/:queue/dead/delete' }],
  input: Type.Object({ queue: queueName, ...DeadChoice.properties }, { 'x-exclusive': [['ids', 'filter']] }),
  output: Type.Object({ deleted: Type.Integer() }),
  run: async (context: Context<Engine>, input) => {
    const { ordinary } = context.engine.database;
    const choice = choiceParameters(input);
    const [found] = await ordinary.query<Found>(MATCH, [context.tenant.id, input.queue, ...choice]);
    if (found === undefined) throw noSuchQueue();
    const act = {
      action: 'DeleteDead',
      target: recordedQueue(input.queue),
      after: recordedChoice(input, found.matched),
    };
    const parameters = [found.id, ...choice, found.now, BATCH];
    return { deleted: await deleteAll(ordinary, parameters, (first) => recordAct(first, context, act)) };
  },
});

interface Found {
  readonly id: number;
  readonly now: number;
  readonly matched: number;
}

interface Batch {
  readonly deleted: number;
  readonly lastEndedAt: number | null;
  readonly lastJobId: string | null;
}

/**
 * Batch after batch, each one transaction; answers how many were deleted. The act is recorded with the first batch that deletes
 * any: recorded with the last, it would be missing when the process ends in between.
 */
async function deleteAll(
  connections: Connections,
  parameters: readonly unknown[],
  record: (connection: Connection) => Promise<void>,
): Promise<number> {
  let last: readonly unknown[] = BEGINNING;
  let deleted = 0;
  for (;;) {
    const values = [...parameters, ...last];
    const isFirst = deleted === 0;
    const batch = await connections.transaction(async (connection) => {
      const [row] = await connection.query<Batch>(DELETE_DEAD, values);
      if (isFirst && row!.deleted > 0) await record(connection);
      return row!;
    });
    deleted += batch.deleted;
    if (batch.deleted < BATCH) return deleted;
    last = [batch.lastEndedAt, batch.lastJobId];
  }
}

// Reads only; indexes queue_name, dead_queue and the primary key of job.
const MATCH: Statement = {
  name: 'dead-delete-match',
  text: `select q.id, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now,
  (select count(*)
  from dead d
  left join job j on j.id = d.job_id
  where d.queue_id = q.id
    and ($3::uuid[] is null or d.job_id = any($3::uuid[]))
    and ($4::text is null or j.kind = $4::text)
    and ($5::dead_reason is null or d.reason = $5::dead_reason)
    and ($6::float8 is null or d.ended_at < timestamptz 'epoch' + $6::float8 * interval '1 microsecond')
    and ($7::float8 is null or d.ended_at > timestamptz 'epoch' + $7::float8 * interval '1 microsecond'))::float8 as matched
from queue q
where q.tenant_id = $1::uuid and q.name = $2 and q.closed_at is null`,
};

// Locks up to $8 rows of dead, passing over those that somebody else moves; everything else of a job goes by what that
// deleted. Each batch goes on behind the last one ($9, $10). Indexes dead_queue and primary keys.
const DELETE_DEAD: Statement = {
  name: 'dead-delete',
  text: `with chosen as materialized (
  select d.job_id, d.ended_at
  from dead d
  left join job j on j.id = d.job_id
  where d.queue_id = $1::int
    and ($2::uuid[] is null or d.job_id = any($2::uuid[]))
    and ($3::text is null or j.kind = $3::text)
    and ($4::dead_reason is null or d.reason = $4::dead_reason)
    and ($5::float8 is null or d.ended_at < timestamptz 'epoch' + $5::float8 * interval '1 microsecond')
    and ($6::float8 is null or d.ended_at > timestamptz 'epoch' + $6::float8 * interval '1 microsecond')
    and d.ended_at <= timestamptz 'epoch' + $7::float8 * interval '1 microsecond'
    and (d.ended_at, d.job_id) > (timestamptz 'epoch' + $9::float8 * interval '1 microsecond', $10::uuid)
  order by d.ended_at, d.job_id
  limit $8::int
  for update of d skip locked
),
gone as (
  delete from dead where job_id = any(array(select job_id from chosen)) returning job_id
),
bodies as (
  delete from job where id = any(array(select job_id from gone)) returning id, expires_at
),
attempts as (
  delete from attempt where job_id = any(array(select job_id from gone))
),
expiries as (
  delete from job_expiry
  where (expires_at, job_id) in (select expires_at, id from bodies where expires_at is not null)
),
counted as (
  insert into queue_count (queue_id, dead) select $1::int, -count(*) from gone having count(*) > 0
)
select (select count(*) from gone)::int as deleted, (extract(epoch from last.ended_at) * 1000000)::float8 as "lastEndedAt",
  last.job_id as "lastJobId"
from (select) one
left join (select job_id, ended_at from chosen order by ended_at desc, job_id desc limit 1) last on true`,
};
