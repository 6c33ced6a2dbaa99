import { plainArray } from '../db/literals.js';
import type { Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';
import type { Task } from './runner.js';

/** Wakes callers that wait for the end of a job which another instance ended; asks nothing when nobody waits. */
export const watchEndings: Task = {
  name: 'watch-endings',
  every: 1_000,
  run: async ({ database, endings }: Engine) => {
    const jobIds = endings.jobIds();
    if (jobIds.length === 0) return { counts: { ended: 0 } };
    const ended = await database.tasks.query<{ jobId: string }>(FIND_ENDED, [plainArray(jobIds)]);
    endings.ended(ended.map(({ jobId }) => jobId));
    return { counts: { ended: ended.length } };
  },
};

// Locks nothing; one snapshot, so a job that moves between these tables is seen in one of them. Up to three look-ups on
// unique indexes an id: `not exists` would become a join, planned while these tables are empty. The ids are those of jobs
// that their own tenant has just read.
const FIND_ENDED: Statement = {
  name: 'watch-endings',
  text: `select w.id as "jobId"
from unnest($1::uuid[]) as w(id)
where (select lease.job_id from lease where lease.job_id = w.id) is null
  and (select ready.job_id from ready where ready.job_id = w.id) is null
  and (select scheduled.job_id from scheduled where scheduled.job_id = w.id) is null`,
};
