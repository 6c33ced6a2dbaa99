import type { AttemptRow, JobRow } from './evidence.js';
import type { FaultyPostgres } from './postgres.js';
import { QUEUES } from './queues.js';

/** What the database says of the load's jobs. */
export async function readRows(postgres: FaultyPostgres): Promise<{ jobs: JobRow[]; attempts: AttemptRow[] }> {
  const names = Object.keys(QUEUES);
  return {
    jobs: await postgres.sql<JobRow>(JOBS, [names]),
    attempts: await postgres.sql<AttemptRow>(ATTEMPTS, [names]),
  };
}

/** How many of the load's jobs are not at their end. */
export async function countOpen(postgres: FaultyPostgres): Promise<number> {
  const [row] = await postgres.sql<{ open: number }>(OPEN, [Object.keys(QUEUES)]);
  return row!.open;
}

const JOBS = `select s.job_id as id, q.name as queue, s.state, s.epoch, s.lease_id as "leaseId", s.ended::text as ended, s.attempt,
  (extract(epoch from s.started_at) * 1000000)::float8 as "startedAt", j.idempotency_key as key
from stint.job_state s
join stint.queue q on q.id = s.queue_id and q.name = any($1::text[])
left join stint.job j on j.id = s.job_id`;

const ATTEMPTS = `select a.job_id as id, a.epoch, a.lease_id as "leaseId", a.attempt, a.outcome::text as outcome,
  (extract(epoch from a.started_at) * 1000000)::float8 as "startedAt",
  (extract(epoch from a.ended_at) * 1000000)::float8 as "endedAt"
from stint.attempt a
join stint.job_state s on s.job_id = a.job_id
join stint.queue q on q.id = s.queue_id and q.name = any($1::text[])`;

const OPEN = `select count(*)::int as open
from (select queue_id from stint.ready union all select queue_id from stint.scheduled union all select queue_id from stint.lease) waiting
join stint.queue q on q.id = waiting.queue_id and q.name = any($1::text[])`;
