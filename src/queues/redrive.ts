import { type Static, Type } from 'typebox';
import { recordAct } from '../audit/record-act.js';
import { type Context, defineOperation } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { queueName } from '../jobs/enqueue-fields.js';
import { BEGINNING, choiceParameters, DeadChoice } from './dead-filter.js';
import { noSuchQueue } from './queue.js';
import { recordedChoice, recordedQueue } from './recorded.js';

const BATCH = 1000;
const LONGEST_SPREAD_SECONDS = 366 * 86_400;

const Input = Type.Object(
  {
    queue: queueName,
    ...DeadChoice.properties,
    toQueue: Type.Optional(
      Type.String({ ...queueName, description: 'Where they go; it must exist. Default: where they are.' }),
    ),
    rate: Type.Optional(
      Type.Number({
        minimum: 0.001,
        maximum: 100_000,
        description: 'Jobs per second: they are scheduled this far apart instead of all being ready at once.',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Count only. Default false.' })),
  },
  { 'x-exclusive': [['ids', 'filter']] },
);
type Input = Static<typeof Input>;

export const redriveDead = defineOperation({
  name: 'RedriveDead',
  group: 'Queues',
  summary: 'Put dead jobs back to work',
  description:
    'Without `ids` and `filter`: all. Jobs keep id, history and lease epoch; attempts start again at 1 and `expiresAt` is ' +
    'cleared. Jobs that die after the call has begun are left alone. A job whose body is lost cannot be redriven and does not match.',
  scopes: ['manage'],
  http: [{ method: 'POST', path: '/v1/queues/:queue/dead/redrive' }],
  input: Input,
  output: Type.Object({
    matched: Type.Integer({ description: 'Dead jobs that match.' }),
    redriven: Type.Integer({
      description: 'Those that were put back; fewer when somebody else redrove or deleted some meanwhile.',
    }),
  }),
  example: { filter: { kind: 'mail', reason: 'attempts_spent' }, rate: 10 },
  run: async (context: Context<Engine>, input) => {
    const { engine, tenant } = context;
    const choice = choiceParameters(input);
    const names = [tenant.id, input.queue, input.toQueue ?? input.queue];
    const [found] = await engine.database.ordinary.query<Found>(MATCH, [...names, ...choice]);
    if (found?.sourceId == null) throw noSuchQueue();
    if (found.targetId === null) throw noSuchQueue('toQueue');
    if (input.rate !== undefined && found.matched / input.rate > LONGEST_SPREAD_SECONDS) {
      throw invalidField('rate', `would spread ${found.matched} jobs over more than 366d`);
    }
    if (input.dryRun === true) return { matched: found.matched, redriven: 0 };
    const { sourceId, targetId, now } = found;
    const act = {
      action: 'RedriveDead',
      target: recordedQueue(input.queue),
      after: recordedChoice(input, found.matched),
    };
    const parameters = [sourceId, ...choice, targetId, now];
    const redriven = await redrive(engine, { parameters, rate: input.rate }, (first) => recordAct(first, context, act));
    return { matched: found.matched, redriven };
  },
});

interface Found {
  readonly sourceId: number | null;
  readonly targetId: number | null;
  readonly matched: number;
  readonly now: number;
}

interface Batch {
  readonly moved: number;
  readonly targetId: number;
  readonly firstDueAt: number | null;
  readonly lastEndedAt: number | null;
  readonly lastJobId: string | null;
}

interface Redrive {
  /** Those of the statement, up to its clock: source, choice, target, now. */
  readonly parameters: readonly unknown[];
  readonly rate: number | undefined;
}

/**
 * Batch after batch, each one transaction, until none is left; answers how many were moved. The act is recorded with the first
 * batch that moves any: recorded with the last, it would be missing when the process ends in between.
 */
export async function redrive(
  { database, wakeups }: Engine,
  { parameters, rate }: Redrive,
  record: (connection: Connection) => Promise<void>,
): Promise<number> {
  const interval = rate === undefined ? null : 1 / rate;
  let last: readonly unknown[] = BEGINNING;
  let redriven = 0;
  for (;;) {
    const values = [...parameters, interval, redriven, BATCH, ...last];
    const isFirst = redriven === 0;
    const { moved, targetId, firstDueAt, lastEndedAt, lastJobId } = await database.ordinary.transaction(
      async (connection) => {
        const [batch] = await connection.query<Batch>(REDRIVE, values);
        if (isFirst && batch!.moved > 0) await record(connection);
        return batch!;
      },
    );
    redriven += moved;
    if (firstDueAt !== null) wakeups.scheduled(firstDueAt);
    else if (moved > 0) wakeups.ready([targetId]);
    if (moved < BATCH) return redriven;
    last = [lastEndedAt, lastJobId];
  }
}

// Reads only; indexes queue_name, dead_queue, and the primary keys of dead and job.
const MATCH: Statement = {
  name: 'dead-redrive-match',
  text: `with source as materialized (
  select id from queue where tenant_id = $1::uuid and name = $2 and closed_at is null
)
select (select id from source) as "sourceId",
  (select id from queue where tenant_id = $1::uuid and name = $3 and closed_at is null) as "targetId",
  (extract(epoch from clock_timestamp()) * 1000000)::float8 as now,
  (select count(*)
  from dead d
  join job j on j.id = d.job_id
  where d.queue_id = (select id from source)
    and ($4::uuid[] is null or d.job_id = any($4::uuid[]))
    and ($5::text is null or j.kind = $5::text)
    and ($6::dead_reason is null or d.reason = $6::dead_reason)
    and ($7::float8 is null or d.ended_at < timestamptz 'epoch' + $7::float8 * interval '1 microsecond')
    and ($8::float8 is null or d.ended_at > timestamptz 'epoch' + $8::float8 * interval '1 microsecond'))::float8 as matched`,
};

// Locks up to $11 rows of dead, passing over those that somebody else moves; what it deletes alone feeds what it inserts, so
// that two redrives, a forward or a deletion beside it take each job once. Only what was dead when the call began ($8);
// each batch goes on behind the last one ($12, $13), so that what does not match is looked at once. The
// target's mark is read here: a forced delete that came before makes this move nothing, one that comes later waits for it.
const REDRIVE: Statement = {
  name: 'dead-redrive',
  text: `with clock as materialized (select clock_timestamp() as at),
chosen as materialized (
  select d.job_id, d.ended_at
  from dead d
  join job j on j.id = d.job_id
  where d.queue_id = $1::int
    and ($2::uuid[] is null or d.job_id = any($2::uuid[]))
    and ($3::text is null or j.kind = $3::text)
    and ($4::dead_reason is null or d.reason = $4::dead_reason)
    and ($5::float8 is null or d.ended_at < timestamptz 'epoch' + $5::float8 * interval '1 microsecond')
    and ($6::float8 is null or d.ended_at > timestamptz 'epoch' + $6::float8 * interval '1 microsecond')
    and d.ended_at <= timestamptz 'epoch' + $8::float8 * interval '1 microsecond'
    and (d.ended_at, d.job_id) > (timestamptz 'epoch' + $12::float8 * interval '1 microsecond', $13::uuid)
    and exists (select from queue q where q.id = $7::int and q.closed_at is null)
    and exists (select from queue q where q.id = $1::int and q.closed_at is null)
  order by d.ended_at, d.job_id
  limit $11::int
  for update of d skip locked
),
taken as (
  delete from dead where job_id = any(array(select job_id from chosen)) returning *
),
placed as materialized (
  select t.*, clock.at + $9::float8 * ($10::float8 + row_number() over (order by t.ended_at, t.job_id) - 1) * interval '1 second' as due_at
  from taken t, clock
),
made_ready as (
  insert into ready (queue_id, rank, job_id, ready_at, lease_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, ended)
  select $7::int, p.rank, p.job_id, clock.at, p.lease_id, p.epoch, 0, p.releases, p.size, p.visibility_timeout, p.max_attempts, p.ended
  from placed p, clock
  where p.due_at is null
  order by p.ended_at, p.job_id
),
made_scheduled as (
  insert into scheduled (due_at, job_id, lease_id, queue_id, epoch, attempt, releases, size, visibility_timeout, max_attempts, rank, ended)
  select due_at, job_id, lease_id, $7::int, epoch, 0, releases, size, visibility_timeout, max_attempts, rank, ended
  from placed
  where due_at is not null
  order by due_at, job_id
),
bodies as (
  update job set queue_id = $7::int, expires_at = null
  where id = any(array(select job_id from taken)) and (queue_id <> $7::int or expires_at is not null)
),
expiries as (
  delete from job_expiry
  where (expires_at, job_id) in (select expires_at, job_id from taken where expires_at is not null)
),
counted as (
  insert into queue_count (queue_id, dead, ready, scheduled)
  select $1::int, -count(*), 0, 0 from placed having count(*) > 0
  union all
  select $7::int, 0, count(*) filter (where due_at is null), count(*) filter (where due_at is not null) from placed having count(*) > 0
)
select count(*)::int as moved, $7::int as "targetId", (extract(epoch from min(due_at)) * 1000000)::float8 as "firstDueAt",
  (extract(epoch from max(ended_at)) * 1000000)::float8 as "lastEndedAt",
  (select job_id from chosen order by ended_at desc, job_id desc limit 1) as "lastJobId"
from placed`,
};
