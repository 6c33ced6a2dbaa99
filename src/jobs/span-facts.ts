import type { Context } from '../core/operation.js';
import { InvalidItem } from '../core/wire.js';
import type { Engine } from '../hotpath/engine.js';
import { parseLeaseToken } from './lease-token.js';
import type { Settled } from './outcome.js';

type Headers = Readonly<Record<string, string>> | undefined;
type Given = { readonly leaseToken: string } | InvalidItem;
type Verbs<T> = Readonly<Partial<Record<'heartbeats' | 'acks' | 'nacks' | 'releases', readonly T[]>>>;

/** What the span of an enqueue tells. Jobs that name their producer's span themselves are linked to it. */
export function enqueueFacts(
  jobs: readonly { readonly queue: string; readonly headers?: Headers }[],
  enqueued: readonly { readonly id: string }[],
) {
  return {
    queue: onlyOne(jobs.map(({ queue }) => queue)),
    job: enqueued.length === 1 ? enqueued[0]!.id : undefined,
    producers: producersOf(jobs),
  };
}

interface LeaseInput {
  readonly queue?: string | undefined;
  readonly queues?: readonly { readonly name: string }[] | undefined;
  readonly settle?: Verbs<Given> | undefined;
}

interface LeaseOutput {
  readonly jobs: readonly { readonly id: string; readonly queue: string; readonly headers: Headers }[];
  readonly settled?: Verbs<Settled> | undefined;
}

/** What the span of a lease tells: it links to the producers of the jobs. */
export function leaseFacts({ queue, queues = [], settle }: LeaseInput, output: LeaseOutput | undefined) {
  const asked = queue ?? onlyOne(queues.map(({ name }) => name));
  const { jobs = [], settled } = output ?? {};
  return {
    queue: jobs.length === 0 ? asked : onlyOne(jobs.map((job) => job.queue)),
    jobs: output === undefined ? undefined : jobs.length,
    job: jobs.length === 1 ? jobs[0]!.id : undefined,
    producers: producersOf(jobs),
    settles: settle === undefined ? undefined : listed(settle).length,
    missed: settled === undefined ? undefined : missedOf(listed(settled)),
  };
}

/** What the span of settles of one verb tells. They have no link: a lease token does not say where its job came from. */
export function settleFacts(
  { engine, tenant }: Context<Engine>,
  items: readonly Given[],
  results: readonly Settled[] | undefined,
) {
  const tokens = items.map((item) => (item instanceof InvalidItem ? undefined : parseLeaseToken(item.leaseToken)));
  const queueId = onlyOne(tokens.map((token) => token?.queueId));
  return {
    queue: queueId === undefined ? undefined : engine.queues.nameOf(tenant.id, queueId),
    jobs: items.length,
    job: tokens.length === 1 ? tokens[0]?.jobId : undefined,
    missed: results === undefined ? undefined : missedOf(results),
  };
}

/** The same of a mixed call. */
export function mixedFacts(context: Context<Engine>, items: Verbs<Given>, results: Verbs<Settled> | undefined) {
  return settleFacts(context, listed(items), results === undefined ? undefined : listed(results));
}

function producersOf(jobs: readonly { readonly headers?: Headers }[]): (string | undefined)[] {
  return jobs.map(({ headers }) => headers?.['traceparent']);
}

function listed<T>({ heartbeats = [], acks = [], nacks = [], releases = [] }: Verbs<T>): T[] {
  return [...heartbeats, ...acks, ...nacks, ...releases];
}

function missedOf(results: readonly Settled[]): number {
  return results.filter(({ outcome }) => outcome !== 'OK' && outcome !== 'ALREADY_SETTLED').length;
}

function onlyOne<T>(values: readonly T[]): T | undefined {
  return values.every((value) => value === values[0]) ? values[0] : undefined;
}
