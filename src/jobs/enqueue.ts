import { Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { Timestamp } from '../core/wire.js';
import { type ErrorCode, ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import type { KnownQueue } from '../hotpath/queue-directory.js';
import {
  type EnqueueFields,
  enqueueFields,
  type EnqueueItem,
  payloadLimits,
  queueName,
  toItem,
} from './enqueue-fields.js';
import {
  enqueueKind,
  type Enqueued,
  enqueueLargeKind,
  type EnqueueUnit,
  LARGE_UNIT_BYTES,
  QueueClosed,
} from './enqueue-flush.js';
import { enqueueKeyedKind, keyName } from './enqueue-keyed.js';
import { JOB_STATES } from './job.js';
import { enqueueFacts } from './span-facts.js';

const exclusive = {
  'x-exclusive': [
    ['delay', 'runAt'],
    ['payload', 'payloadBase64'],
  ],
};

export const EnqueuedJob = Type.Object({
  id: Type.String({ format: 'uuid', description: 'UUID v7.' }),
  state: Type.Enum([...JOB_STATES, 'gone'], {
    description: 'Present state; of a deduplicated job that is no longer kept, `gone`.',
  }),
  enqueuedAt: Timestamp(),
  runAt: Timestamp(),
  deduplicated: Type.Boolean({
    description: 'True when an earlier enqueue under the same idempotency key made this job.',
  }),
});

const EnqueueInput = Type.Object({ queue: queueName, ...enqueueFields }, exclusive);
const EnqueueBatchInput = Type.Object({
  jobs: Type.Array(EnqueueInput, { minItems: 1, maxItems: 1000 }),
});

const createdStatus = (jobs: readonly Enqueued[]): number => (jobs.every((job) => job.deduplicated) ? 200 : 201);

export const enqueue = defineOperation({
  name: 'Enqueue',
  group: 'Jobs',
  summary: 'Enqueue one job',
  description: 'Creates the queue when there is none, unless the tenant was made with `autoCreateQueues: false`.',
  scopes: ['enqueue'],
  storesJobs: true,
  span: {
    verb: 'enqueue',
    type: 'send',
    facts: (_context: Context<Engine>, job, enqueued) => enqueueFacts([job], enqueued === undefined ? [] : [enqueued]),
  },
  http: [
    {
      method: 'POST',
      path: '/v1/queues/:queue/jobs',
      status: (output) => createdStatus([output as Enqueued]),
      statuses: [201, 200],
      headers: { 'idempotency-key': 'idempotencyKey' },
    },
  ],
  input: EnqueueInput,
  output: EnqueuedJob,
  example: { kind: 'welcome', payload: { to: 'ada@example.com' } },
  run: async (context: Context<Engine>, input) => {
    const [job] = await enqueueAll(context, [input], () => '');
    return job!;
  },
});

export const enqueueBatch = defineOperation({
  name: 'EnqueueBatch',
  group: 'Jobs',
  summary: 'Enqueue many jobs, all or none',
  description:
    'The jobs may be for any queues of the tenant. A fault in one refuses them all and names it, for instance `jobs[1].delay`.',
  scopes: ['enqueue'],
  storesJobs: true,
  span: {
    verb: 'enqueue',
    type: 'send',
    facts: (_context: Context<Engine>, { jobs }, output) => ({
      ...enqueueFacts(jobs, output?.jobs ?? []),
      jobs: jobs.length,
    }),
  },
  http: [
    {
      method: 'POST',
      path: '/v1/jobs/batch',
      status: (output) => createdStatus((output as { jobs: Enqueued[] }).jobs),
      statuses: [201, 200],
    },
  ],
  input: EnqueueBatchInput,
  output: Type.Object({ jobs: Type.Array(EnqueuedJob) }),
  example: {
    jobs: [
      { queue: 'mail', kind: 'welcome' },
      { queue: 'reports', delay: '5m' },
    ],
  },
  run: async (context: Context<Engine>, input) => ({
    jobs: await enqueueAll(context, input.jobs, (index) => `jobs[${index}].`),
  }),
});

const LOOKS = 3;

/** A queue that its first enqueue is about to make has the default settings. */
const NEW_QUEUE = { maxPayloadBytes: null, idempotencyWindow: 86_400_000, id: 0 };

async function enqueueAll(
  context: Context<Engine>,
  jobs: readonly (EnqueueFields & { readonly queue: string })[],
  pathOf: (index: number) => string,
): Promise<Enqueued[]> {
  const limits = payloadLimits(context);
  const trace = context.traceHeaders;
  for (let look = 1; ; look += 1) {
    const queues = queuesInMemory(context, jobs) ?? (await queuesOf(context, jobs, pathOf));
    const now = context.engine.clock.now();
    const items = jobs.map((job, index) =>
      toItem(job, { limits, queue: queues.get(job.queue) ?? NEW_QUEUE, now, path: pathOf(index), trace }),
    );
    const spent = context.spendJobs(jobs.length);
    const isWhole = jobs.every(({ queue }) => queues.has(queue));
    try {
      const unit = isWhole ? items : await withQueues(context, items, jobs, queues);
      const results = await submit(context, unit);
      announce(context.engine, unit, results);
      spent(true);
      return results;
    } catch (error) {
      const isStored = !(error instanceof QueueClosed) && !(error instanceof ServiceError && REFUSALS.has(error.code));
      spent(isStored);
      if (!(error instanceof QueueClosed)) throw error;
      context.engine.queues.forget([error.queueId]);
      if (look === LOOKS) throw new ServiceError('UNAVAILABLE', 'the queue is being deleted', { retryAfter: 1 });
    }
  }
}

/** After these nothing is stored. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set(['QUOTA_EXCEEDED', 'BACKLOG_FULL', 'IDEMPOTENCY_KEY_REUSED']);

function submit(context: Context<Engine>, unit: EnqueueUnit): Promise<Enqueued[]> {
  const keys = unit.flatMap((item) => (item.idempotency === undefined ? [] : [keyName(item)]));
  const bytes = unit.reduce((sum, { size }) => sum + size, 0);
  const unkeyed = bytes < LARGE_UNIT_BYTES ? enqueueKind : enqueueLargeKind;
  return context.engine.batches.submit(keys.length > 0 ? enqueueKeyedKind : unkeyed, {
    tenantId: context.tenant.id,
    item: unit,
    rows: unit.length,
    bytes,
    keys,
  });
}

/** Tells whoever waits for work; a deduplicated job was announced when it was made. */
function announce(engine: Engine, unit: readonly EnqueueItem[], results: readonly Enqueued[]): void {
  const ready = new Set<number>();
  results.forEach((result, index) => {
    if (result.deduplicated) return;
    if (result.state === 'scheduled') engine.wakeups.scheduled(result.runAt);
    else ready.add(unit[index]!.queueId);
  });
  engine.wakeups.ready(ready);
}

/** Undefined unless all of them are known without asking the database. */
function queuesInMemory(
  { engine, tenant }: Context<Engine>,
  jobs: readonly { readonly queue: string }[],
): Map<string, KnownQueue> | undefined {
  const queues = new Map<string, KnownQueue>();
  for (const { queue: name } of jobs) {
    if (queues.has(name)) continue;
    const queue = engine.queues.known(tenant.id, name);
    if (queue === undefined) return undefined;
    queues.set(name, queue);
  }
  return queues;
}

async function queuesOf(
  { engine, tenant }: Context<Engine>,
  jobs: readonly { readonly queue: string }[],
  pathOf: (index: number) => string,
): Promise<Map<string, KnownQueue>> {
  const queues = new Map<string, KnownQueue>();
  for (const [index, { queue: name }] of jobs.entries()) {
    if (queues.has(name)) continue;
    const queue = await engine.queues.find(tenant.id, name);
    if (queue !== undefined) {
      queues.set(name, queue);
    } else if (!tenant.autoCreateQueues) {
      const field = `${pathOf(index)}queue`;
      const message = 'names no queue';
      throw new ServiceError('NOT_FOUND', `${field} ${message}`, { fields: [{ field, message }] });
    }
  }
  return queues;
}

/** Makes the queues that are missing, now that all of the jobs are known to be sound. */
async function withQueues(
  { engine, tenant }: Context<Engine>,
  items: readonly EnqueueItem[],
  jobs: readonly { readonly queue: string }[],
  queues: Map<string, KnownQueue>,
): Promise<EnqueueUnit> {
  const missing = [...new Set(jobs.map(({ queue }) => queue).filter((name) => !queues.has(name)))];
  for (const [index, name] of missing.entries()) {
    const queue = await engine.queues.findOrCreate(tenant, name, missing.slice(index));
    engine.wakeups.changed(queue.id);
    queues.set(name, queue);
  }
  return items.map((item, index) => ({ ...item, queueId: queues.get(jobs[index]!.queue)!.id }));
}
