import type { Connections } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import type { Engine } from '../hotpath/engine.js';
import { planRound, UNKNOWN_FAULT } from './plan-round.js';
import { readDue } from './read-due.js';
import { type Planned, writeFailures, writeFires, writeRests, type Written } from './write-fires.js';

/** Schedules of one round. */
const MOST = 500;

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
  const { planned, failures, isCut } = await planRound(engine, read);
  if (resting.length > 0) await writeRests(tasks, resting);
  if (failures.length > 0) await writeFailures(tasks, failures);
  const { queueIds, closedQueueIds, ...done } = await writeAll(tasks, planned);
  engine.wakeups.ready(queueIds);
  engine.queues.forget(closedQueueIds);
  return {
    counts: { ...done, failed: done.failed + failures.length },
    again: isCut || read.due.length === MOST,
    next: read.next === null ? undefined : (read.next - read.now) / 1_000,
  };
}

const NOTHING: Written = { fired: 0, missed: 0, skipped: 0, failed: 0, queueIds: [], closedQueueIds: [] };

/** What the database refuses for something in one of them is written in halves, until that one is found. */
async function writeAll(connections: Connections, planned: readonly Planned[]): Promise<Written> {
  if (planned.length === 0) return NOTHING;
  try {
    return await writeFires(connections, planned);
  } catch (error) {
    if (error instanceof ServiceError) throw error;
    if (planned.length === 1) {
      await writeFailures(connections, [{ row: planned[0]!.row, error: UNKNOWN_FAULT }]);
      return { ...NOTHING, failed: 1 };
    }
  }
  const middle = Math.ceil(planned.length / 2);
  const one = await writeAll(connections, planned.slice(0, middle));
  const other = await writeAll(connections, planned.slice(middle));
  return {
    fired: one.fired + other.fired,
    missed: one.missed + other.missed,
    skipped: one.skipped + other.skipped,
    failed: one.failed + other.failed,
    queueIds: [...one.queueIds, ...other.queueIds],
    closedQueueIds: [...one.closedQueueIds, ...other.closedQueueIds],
  };
}
