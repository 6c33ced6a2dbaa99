import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Duration } from '../core/wire.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { type Claimed, claimKind, moveBodiless } from './claim.js';
import { queueName } from './enqueue-fields.js';
import { announceHandedBack, handBackKind } from './hand-back.js';
import { LeasedJob } from './leased-job.js';
import { settleAll, SettleResults, Settles } from './settle.js';
import { leaseFacts } from './span-facts.js';

const LeaseInput = Type.Object(
  {
    queue: Type.Optional(queueName),
    queues: Type.Optional(
      Type.Array(
        Type.Object({
          name: queueName,
          weight: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'Default 1.' })),
        }),
        { minItems: 1, maxItems: 100 },
      ),
    ),
    maxJobs: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, description: 'Default 1.' })),
    wait: Type.Optional(
      Duration({
        minimum: 0,
        maximum: 60_000,
        description: 'How long to wait for a job when there is none. Default 0s; at most 50s behind proxies.',
      }),
    ),
    visibilityTimeout: Type.Optional(
      Duration({ minimum: 1_000, maximum: 43_200_000, description: "Wins over the job's and the queue's." }),
    ),
    worker: Type.Optional(Type.String({ maxLength: 256, description: 'Who works: shown with the job.' })),
    settle: Type.Optional(Settles),
  },
  { 'x-exclusive': [['queue', 'queues']] },
);

export const lease = defineOperation({
  name: 'Lease',
  group: 'Jobs',
  summary: 'Lease jobs',
  description:
    'Answers at once with what is ready; otherwise waits as long as `wait` says. A queue that does not exist waits like an empty one. With `settle` a worker’s loop is one round trip a job: settles are carried out first and stand whatever becomes of the lease; if not all are OK, the call answers without waiting.',
  scopes: ['work'],
  span: {
    verb: 'lease',
    type: 'receive',
    facts: (_context: Context<Engine>, input, output) => leaseFacts(input, output),
  },
  http: [
    { method: 'POST', path: '/v1/lease', omit: ['queue'] },
    {
      method: 'POST',
      path: '/v1/queues/:queue/lease',
      suffix: 'Queue',
      summary: 'Lease jobs of one queue',
      omit: ['queues'],
    },
  ],
  input: LeaseInput,
  output: Type.Object({ jobs: Type.Array(LeasedJob), settled: Type.Optional(SettleResults) }),
  example: { maxJobs: 10, wait: '30s', worker: 'mailer-1' },
  run: async (context: Context<Engine>, input) => {
    const queues = input.queues ?? (input.queue === undefined ? [] : [{ name: input.queue }]);
    if (queues.length === 0) {
      throw new ServiceError('INVALID_ARGUMENT', 'queues is required', {
        fields: [{ field: 'queues', message: 'is required' }],
      });
    }
    if (!context.tenant.autoCreateQueues)
      for (const { name } of queues) await context.engine.queues.get(context.tenant.id, name);
    const settled = input.settle === undefined ? undefined : await settleAll(context, input.settle);
    const claimed = await context.engine.waiters.lease(claimKind, {
      tenantId: context.tenant.id,
      queues: merged(queues),
      maxJobs: input.maxJobs ?? 1,
      wait: settled === undefined || allOk(settled) ? (input.wait ?? 0) : 0,
      visibilityTimeout: input.visibilityTimeout,
      worker: input.worker,
      departure: context.departure,
      park: (end) => context.park(end),
      idled: (seconds) => context.idled(seconds),
    });
    return { jobs: await deliverable(context, claimed), settled };
  },
});

function allOk({ heartbeats, acks, nacks, releases }: SettleResults): boolean {
  return [heartbeats, acks, nacks, releases].every((results) => results.every(({ outcome }) => outcome === 'OK'));
}

function merged(queues: readonly { readonly name: string; readonly weight?: number | undefined }[]) {
  if (queues.length === 1) return [{ name: queues[0]!.name, weight: queues[0]!.weight ?? 1 }];
  const weights = new Map<string, number>();
  for (const { name, weight } of queues) weights.set(name, Math.max(weights.get(name) ?? 0, weight ?? 1));
  return [...weights].map(([name, weight]) => ({ name, weight }));
}

/**
 * Jobs on their way to the caller. If it is gone before it has them, they go straight back to the tail, no attempt spent. A job
 * whose body is missing is never handed out with a null payload: it is dead.
 */
async function deliverable(context: Context<Engine>, claimed: readonly Claimed[]): Promise<LeasedJobs> {
  if (claimed.length === 0) return [];
  const isWhole = ({ bodyMissing }: Claimed): boolean => !bodyMissing;
  const whole = claimed.every(isWhole) ? claimed : claimed.filter(isWhole);
  const back = (): void => giveBack(context, whole);
  if (whole.length < claimed.length) {
    const bodiless = claimed.filter(({ bodyMissing }) => bodyMissing);
    await bury(context.engine, bodiless).catch(backAndThrow(back));
  }
  if (whole.length === 0) return [];
  context.departure.listen(back);
  return whole.map(({ job }) => job);
}

type LeasedJobs = Claimed['job'][];

async function bury(engine: Engine, bodiless: readonly Claimed[]): Promise<void> {
  await moveBodiless(engine.database.settle, bodiless);
  engine.waiters.buried(bodiless.map(({ jobId }) => jobId));
}

/** The caller gets an error in place of its jobs. */
function backAndThrow(back: () => void): (error: unknown) => never {
  return (error) => {
    back();
    throw error;
  };
}

function giveBack({ engine, tenant }: Context<Engine>, claimed: readonly Claimed[]): void {
  engine.waiters.undelivered(claimed.length);
  for (const { jobId, queueId, leaseId, job } of claimed) {
    const token = { jobId, queueId, leaseId, epoch: job.leaseEpoch };
    const item = { token, item: { ended: 'undelivered' as const, delay: 0, final: false, error: undefined } };
    engine.batches
      .submit(handBackKind, { tenantId: tenant.id, item, rows: 1, bytes: 0, keys: [jobId] })
      .then((result) => {
        if (result.outcome === 'OK') announceHandedBack(engine, token, result);
      })
      // The database is away: the lease runs out by itself, which is what the visibility timeout is for.
      .catch(() => undefined);
  }
}
