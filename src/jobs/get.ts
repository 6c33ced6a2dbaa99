import { type Static, Type } from 'typebox';
import { Departure } from '../core/departure.js';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration } from '../core/wire.js';
import type { Engine } from '../hotpath/engine.js';
import { Job, type JobState } from './job.js';
import { readJob } from './read-jobs.js';

const Input = Type.Object({
  id: Type.String({ format: 'uuid' }),
  wait: Type.Optional(
    Duration({ minimum: 0, maximum: 60_000, description: 'How long to wait for the job to end; 0s unless given.' }),
  ),
});

const ENDED: ReadonlySet<JobState> = new Set(['completed', 'dead', 'cancelled']);

/**
 * A job with payload, result and attempts. With `wait` (0s to 60s) it answers as soon as the job is completed, dead or
 * cancelled, and at the latest after that time with the state of the moment. Throws NOT_FOUND.
 */
export const getJob = defineOperation({
  name: 'GetJob',
  group: 'Jobs',
  summary: 'Get a job, optionally waiting for its end',
  scopes: ['work', 'read'],
  http: [{ method: 'GET', path: '/v1/jobs/:id' }],
  input: Input,
  output: Job,
  run: async (context: Context<Engine>, input: Static<typeof Input>): Promise<Job> => {
    const { engine, departure } = context;
    const id = input.id.toLowerCase();
    const read = (): Promise<Job> => readJob(context, id);
    const wait = input.wait ?? 0;
    return wait === 0
      ? read()
      : readWhenEnded(read, async (until) => {
          const began = performance.now();
          departure.listen(() => until.tell());
          await engine.endings.wait({
            jobId: id,
            milliseconds: wait,
            departure: until,
            park: (end) => context.park(end),
          });
          context.idled((performance.now() - began) / 1_000);
        });
  },
});

/** Parks before it looks, so that an end between the look and the wait is not missed. */
async function readWhenEnded(read: () => Promise<Job>, park: (until: Departure) => Promise<void>): Promise<Job> {
  const answered = new Departure();
  const woken = park(answered);
  // It may be refused, or ended, before it is waited for: told below, and never an unhandled rejection.
  woken.catch(() => undefined);
  try {
    const job = await read();
    if (ENDED.has(job.state)) return job;
    await woken;
    return await read();
  } finally {
    answered.tell();
  }
}
