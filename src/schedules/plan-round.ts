import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { CronFault } from './cron.js';
import { type Plan, planFires } from './plan-fires.js';
import { type DueRow, type DueSchedules, readStored } from './read-due.js';
import { timingOf } from './schedule.js';
import { type InstantsAfter, instantsOf } from './timing.js';
import type { Failure, Planned } from './write-fires.js';

/** Jobs, and bytes of jobs, of one round; what is above comes in the next. */
const MOST_JOBS = 1_000;
const MOST_BYTES = 8 * 1024 * 1024;
/** Milliseconds of arithmetic after which others have their turn. */
const TURN_MS = 10;

/** What a schedule's error says of a fault that nobody has foreseen. */
export const UNKNOWN_FAULT = 'internal error';

export interface Round {
  readonly planned: readonly Planned[];
  readonly failures: readonly Failure[];
  /** Some of what is due did not fit. */
  readonly isCut: boolean;
}

/** Works out what becomes of the schedules that were read, but for those at rest. One that cannot fire is among the failures. */
export async function planRound(engine: Engine, { due, now }: DueSchedules): Promise<Round> {
  const active = due.filter(({ isResting }) => !isResting);
  const rooms = await roomsOf(engine, active);
  const instantsFor = remembering();
  const queueFor = makingQueues(engine);
  const planned: Planned[] = [];
  const failures: Failure[] = [];
  let [jobs, bytes, isCut] = [0, 0, false];
  let turn = performance.now();
  for (const row of active) {
    if (jobs >= MOST_JOBS || bytes >= MOST_BYTES) return { planned, failures, isCut: true };
    if (performance.now() - turn > TURN_MS) {
      await yieldToOthers();
      turn = performance.now();
    }
    try {
      const whole = planFires({ ...row, instants: instantsFor(row), from: row.nextFire }, now);
      const plan = fitting(whole, row.size);
      takeRoom(rooms, row, plan.fires.length);
      planned.push({ row, queueId: row.queueId ?? (await queueFor(row)), plan });
      jobs += plan.fires.length;
      bytes += plan.fires.length * row.size;
      isCut ||= plan !== whole;
    } catch (error) {
      failures.push({ row, error: reasonOf(error) });
    }
  }
  return { planned, failures, isCut };
}

/** As many of its jobs as fit, and one at least; the rest is due at the next look. */
function fitting(plan: Plan, size: number): Plan {
  const most = Math.max(1, Math.floor(MOST_BYTES / size));
  return plan.fires.length <= most ? plan : { ...plan, fires: plan.fires.slice(0, most), next: plan.fires[most] };
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

/** The database being away is no schedule's fault: the round fails as a whole. */
function reasonOf(error: unknown): string {
  if (error instanceof CronFault) return error.message;
  if (!(error instanceof ServiceError)) return UNKNOWN_FAULT;
  if (error.cause !== undefined) throw error;
  return error.message;
}
