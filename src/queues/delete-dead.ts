import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { BEGINNING, choiceParameters, DeadChoice } from './dead-filter.js';
import { noSuchQueue } from './queue.js';

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
  run: async ({ engine, tenant }: Context<Engine>, input) => {
    const { ordinary } = engine.database;
    const [queue] = await ordinary.query<{ id: number; now: number }>(FIND, [tenant.id, input.queue]);
    if (queue === undefined) throw noSuchQueue();
    const parameters = [queue.id, ...choiceParameters(input), queue.now, BATCH];
    let last: readonly unknown[] = BEGINNING;
    let deleted = 0;
    for (;;) {
      const [batch] = await ordinary.query<Batch>(DELETE_DEAD, [...parameters, ...last]);
      deleted += batch!.deleted;
      if (batch!.deleted < BATCH) return { deleted };
      last = [batch!.lastEndedAt, batch!.lastJobId];
    }
  },
});

interface Batch {
  readonly deleted: number;
  readonly lastEndedAt: number | null;
  readonly lastJobId: string | null;
}

const FIND: Statement = {
  name: 'dead-delete-find',
  text: `select id, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now
from queue
where tenant_id = $1::uuid and name = $2 and closed_at is null`,
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
