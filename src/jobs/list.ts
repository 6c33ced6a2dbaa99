import { type Static, Type } from 'typebox';
import { type Context, defineOperation } from '../core/operation.js';
import { decodeCursor, DEFAULT_PAGE_LIMIT, encodeCursor, pageInput } from '../core/page.js';
import { Timestamp } from '../core/wire.js';
import type { Connections } from '../db/pool.js';
import { invalidField } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { key, queueName } from './enqueue-fields.js';
import { Job, JOB_STATES, type JobState } from './job.js';
import { type Key, PLACE_OF_KEY, type PlaceRow, PLACES, SCAN, type Section, SECTIONS, startOf } from './list-places.js';
import { type Include, readJobs } from './read-jobs.js';

const LATEST_ATTEMPTS = 10;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const Input = Type.Object({
  queue: queueName,
  state: Type.Optional(Type.Enum([...JOB_STATES], { description: 'All states, one after the other, unless given.' })),
  kind: Type.Optional(Type.String({ maxLength: 128 })),
  olderThan: Type.Optional(Timestamp({ description: 'Only jobs enqueued before it.' })),
  newerThan: Type.Optional(Timestamp({ description: 'Only jobs enqueued after it.' })),
  idempotencyKey: Type.Optional(key('Only the job that this key stands for.')),
  include: Type.Optional(
    Type.Array(Type.Enum(['payload', 'result', 'attempts']), {
      maxItems: 3,
      description: `What to show beside the rest; of the attempts the latest ${LATEST_ATTEMPTS}.`,
    }),
  ),
  ...pageInput,
});
type Input = Static<typeof Input>;

const Output = Type.Object({
  jobs: Type.Array(Job),
  nextCursor: Type.Optional(Type.String({ description: 'Absent on the last page.' })),
});
type Output = Static<typeof Output>;

interface Place {
  readonly section: Section;
  readonly key: Key;
}

/**
 * A queue's jobs: scheduled ones by due time, ready ones in the order of leasing, leased ones by id, dead, completed and
 * cancelled ones by their end. A page may hold fewer jobs than `limit`, even none, and still name a next one: it ends at
 * 3 MiB, and with a filter at 10,000 jobs looked at. Throws NOT_FOUND for an unknown queue.
 */
export const listJobs = defineOperation({
  name: 'ListJobs',
  group: 'Jobs',
  summary: 'List the jobs of a queue',
  description:
    'A page may hold fewer jobs than its limit, even none, while there are more: go on as long as there is a nextCursor. ' +
    'A job that changes its state meanwhile may be listed twice or not at all.',
  scopes: ['read'],
  http: [
    { method: 'GET', path: '/v1/queues/:queue/jobs' },
    {
      method: 'GET',
      path: '/v1/queues/:queue/dead',
      operationId: 'ListDead',
      summary: 'List the dead letters of a queue',
      omit: ['state'],
      fixed: { state: 'dead' },
    },
  ],
  input: Input,
  output: Output,
  run: async ({ engine, tenant }: Context<Engine>, input: Input): Promise<Output> => {
    const queue = await engine.queues.get(tenant.id, input.queue);
    const { ordinary } = engine.database;
    const found =
      input.idempotencyKey === undefined
        ? await findPlaces(ordinary, queue.id, input)
        : { ids: await idsOfKey(ordinary, [queue.id, input.idempotencyKey]), places: [], after: undefined };
    const { jobs, covered } = await readJobs(ordinary, tenant.id, found.ids, includeOf(input));
    const after = covered < found.ids.length ? found.places[covered - 1] : found.after;
    return { jobs: jobs.filter((job) => suits(job, input)), nextCursor: after && cursorOf(after) };
  },
});

function includeOf({ include = [] }: Input): Include {
  return {
    payload: include.includes('payload'),
    result: include.includes('result'),
    attempts: include.includes('attempts') ? LATEST_ATTEMPTS : 0,
  };
}

/** What the places cannot promise: a job may have moved since, and a key leads to one job whatever the other filters say. */
function suits(job: Job, { state, kind, olderThan, newerThan }: Input): boolean {
  return (
    (state === undefined || job.state === state) &&
    (kind === undefined || job.kind === kind) &&
    (olderThan === undefined || job.enqueuedAt < olderThan) &&
    (newerThan === undefined || job.enqueuedAt > newerThan)
  );
}

async function idsOfKey(connections: Connections, values: readonly unknown[]): Promise<string[]> {
  const rows = await connections.query<{ jobId: string }>(PLACE_OF_KEY, values);
  return rows.map(({ jobId }) => jobId);
}

interface Found {
  readonly ids: readonly string[];
  readonly places: readonly Place[];
  /** Where the next page goes on; absent at the end. */
  readonly after: Place | undefined;
}

async function findPlaces(connections: Connections, queueId: number, input: Input): Promise<Found> {
  const limit = input.limit ?? DEFAULT_PAGE_LIMIT;
  const from = input.cursor === undefined ? undefined : placeOf(input.cursor);
  const found = new Map<string, Place>();
  let full: Place | undefined;
  const answer = (after?: Place): Found => ({ ids: [...found.keys()], places: [...found.values()], after });
  for (const section of sectionsOf(input.state, from)) {
    const start = from?.section === section ? from.key : startOf(section);
    const bounds = [limit + 1 - found.size, SCAN[section]];
    const values = [queueId, ...start, ...bounds, ...filtersOf(section, input)];
    for (const row of await connections.query<PlaceRow>(PLACES[section], values)) {
      if (full !== undefined) return answer(full);
      const place: Place = { section, key: [row.first, row.second] };
      if (row.matches && !found.has(row.jobId)) found.set(row.jobId, place);
      if (row.last) return answer(place);
      if (found.size === limit) full = place;
    }
  }
  return answer();
}

function sectionsOf(state: JobState | undefined, from: Place | undefined): readonly Section[] {
  if (state !== undefined) return [sectionOf(state)];
  return SECTIONS.slice(from === undefined ? 0 : SECTIONS.indexOf(from.section));
}

function sectionOf(state: JobState): Section {
  return state === 'completed' || state === 'cancelled' ? 'finished' : state;
}

function filtersOf(section: Section, { state, kind, olderThan, newerThan }: Input): unknown[] {
  const filters = [kind ?? null, olderThan ?? null, newerThan ?? null];
  return section === 'finished' ? [...filters, state ?? null] : filters;
}

function cursorOf(place: Place): string {
  return encodeCursor([place.section, ...place.key]);
}

function placeOf(cursor: string): Place {
  const [name, first, second] = decodeCursor(cursor, 3);
  const section = SECTIONS.find((known) => known === name);
  if (section !== undefined && typeof first === 'number' && isSecond(section, second)) {
    if (section !== 'ready' || Math.abs(first) <= 32_767) return { section, key: [first, second] };
  }
  throw invalidField('cursor', 'must be the nextCursor of an earlier page of this list');
}

function isSecond(section: Section, second: unknown): second is string | number {
  return section === 'ready' ? typeof second === 'number' : typeof second === 'string' && UUID.test(second);
}
