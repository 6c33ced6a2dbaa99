import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { CronFault } from './cron.js';
import { planFires } from './plan-fires.js';
import { type DueRow, type DueSchedules, readDue, readStored } from './read-due.js';
import { timingOf } from './schedule.js';
import { type InstantsAfter, instantsOf } from './timing.js';
import { type Failure, type Planned, writeFailures, writeFires, writeRests } from './write-fires.js';

/** Schedules of one round. */
const MOST = 500;
/** Jobs, and bytes of jobs, that one statement makes, but for what one schedule makes by itself. */
const MOST_JOBS = 1_000;
const MOST_BYTES = 8 * 1024 * 1024;
/** Milliseconds of arithmetic after which others have their turn. */
const TURN_MS = 10;

export interface Fired {
  readonly counts: Readonly<Record<'fired' | 'missed' | 'skipped' | 'failed', number>>;
  /** More may be due now. */
  readonly again: boolean;
  /** When the next schedule is due, in milliseconds from now; undefined when there is none. */
  readonly next: number | undefined;
}

/**
 * Fires up to 500 schedules that are due. Reads them, works out which instants make jobs, and writes that on condition that nothing has
 * changed since: any number of instances may do so at once. One that cannot fire is noted with its error and stops no other.
 */
export async function fireDue(engine: Engine): Promise<Fired> {
  const { tasks } = engine.database;
  const read = await readDue(tasks, MOST);
  const resting = read.due.filter(({ isResting }) => isResting);
  const round = await plan(engine, read);
  if (resting.length > 0) await writeRests(tasks, resting);
  if (round.failures.length > 0) await writeFailures(tasks, round.failures);
  const { planned } = round;
  const { queueIds, closedQueueIds, ...done } = planned.length === 0 ? NOTHING : await writeFires(tasks, planned);
  engine.wakeups.ready(queueIds);
  engine.queues.forget(closedQueueIds);
  return {
    counts: { ...done, failed: done.failed + round.failures.length },
    again: round.isCut || read.due.length === MOST,
    next: read.next === null ? undefined : (read.next - read.now) / 1_000,
  };
}

const NOTHING = { fired: 0, missed: 0, skipped: 0, failed: 0, queueIds: [], closedQueueIds: [] };

interface Round {
  readonly planned: readonly Planned[];
  readonly failures: readonly Failure[];
  /** Some of what was read did not fit. */
  readonly isCut: boolean;
}

async function plan(engine: Engine, { due, now }: DueSchedules): Promise<Round> {
  const active = due.filter(({ isResting }) => !isResting);
  const rooms = await roomsOf(engine, active);
  const instantsFor = remembering();
  const queueFor = makingQueues(engine);
  const planned: Planned[] = [];
  const failures: Failure[] = [];
  let [jobs, bytes] = [0, 0];
  let turn = performance.now();
  for (const row of active) {
    if (jobs >= MOST_JOBS || bytes >= MOST_BYTES) return { planned, failures, isCut: true };
    if (performance.now() - turn > TURN_MS) {
      await yieldToOthers();
      turn = performance.now();
    }
    try {
      const fires = planFires({ ...row, instants: instantsFor(row), from: row.nextFire }, now);
      takeRoom(rooms, row, fires.fires.length);
      const queueId = row.queueId ?? (await queueFor(row));
      planned.push({ row, queueId, plan: fires });
      jobs += fires.fires.length;
      bytes += fires.fires.length * row.size;
    } catch (error) {
      failures.push({ row, error: reasonOf(error) });
    }
  }
  return { planned, failures, isCut: false };
}

/** Many schedules have the same expression: it is read once. */
function remembering(): (row: DueRow) => InstantsAfter {
  const known = new Map<string, InstantsAfter>();
  return (row) => {
    const timing = timingOf(row);
    const key = JSON.stringify(timing);
    let instants = known.get(key);
    if (instants === undefined) {
      instants = rememberingNext(instantsOf(timing));
      known.set(key, instants);
    }
    return instants;
  };
}

function rememberingNext(instants: InstantsAfter): InstantsAfter {
  const known = new Map<number, number | undefined>();
  return (micros) => {
    if (!known.has(micros)) known.set(micros, instants(micros));
    return known.get(micros);
  };
}

/** Jobs that limited tenants may still store. */
async function roomsOf({ database }: Engine, rows: readonly DueRow[]): Promise<Map<string, number>> {
  const limited = rows.filter(({ limits }) => limits.storedJobs !== undefined);
  if (limited.length === 0) return new Map();
  const stored = await readStored(database.tasks, [...new Set(limited.map(({ tenantId }) => tenantId))]);
  return new Map(limited.map(({ tenantId, limits }) => [tenantId, limits.storedJobs! - (stored.get(tenantId) ?? 0)]));
}

function takeRoom(rooms: Map<string, number>, { tenantId, limits }: DueRow, jobs: number): void {
  const room = rooms.get(tenantId);
  if (room === undefined || jobs === 0) return;
  if (room < jobs) throw new ServiceError('QUOTA_EXCEEDED', `the tenant may store ${limits.storedJobs} jobs`);
  rooms.set(tenantId, room - jobs);
}

/** Asks once for a queue that many schedules miss. */
function makingQueues(engine: Engine): (row: DueRow) => Promise<number> {
  const known = new Map<string, Promise<number>>();
  return (row) => {
    const key = `${row.tenantId} ${row.queue}`;
    const made = known.get(key) ?? makeQueue(engine, row);
    known.set(key, made);
    return made;
  };
}

async function makeQueue(engine: Engine, { tenantId, autoCreateQueues, limits, queue: name }: DueRow): Promise<number> {
  if (!autoCreateQueues) throw new ServiceError('NOT_FOUND', 'there is no queue of that name');
  // The database has just said that there is none: what is remembered is outdated.
  const outdated = engine.queues.known(tenantId, name);
  if (outdated !== undefined) engine.queues.forget([outdated.id]);
  const queue = await engine.queues.findOrCreate({ id: tenantId, limits }, name);
  engine.wakeups.changed(queue.id);
  return queue.id;
}

/** The database being away is nobody's fault: the round fails as a whole. */
function reasonOf(error: unknown): string {
  if (error instanceof CronFault) return error.message;
  if (error instanceof ServiceError && error.cause === undefined) return error.message;
  throw error;
}
