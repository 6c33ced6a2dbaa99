import { plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import type { Log } from '../observability/log.js';
import type { Lane, Lanes } from './lanes.js';

export interface FloorsParts {
  readonly lanes: Lanes;
  /** Told of a queue in which a floor was found to have passed a job. */
  readonly onBreach: (queueId: number) => void;
  readonly log: Pick<Log, 'error'>;
}

/** How far lanes had been taken at an instant, and the transactions that could then have brought something before that. */
interface Mark {
  readonly generation: number;
  readonly lanes: readonly { readonly lane: Lane; readonly top: number }[];
  readonly writers: ReadonlySet<string>;
}

export interface Raised {
  readonly raised: number;
  readonly breached: number;
}

const FIRST_SLICE = 50_000;
const [LEAST_SLICE, MOST_SLICE] = [10_000, 2 ** 40];
/** A sweep's read is to take about this long: slices grow below the first and shrink above the second. */
const [SHORT_MS, LONG_MS] = [5, 20];

/**
 * Raises the floors of lanes. Why a floor may rise to `top`, the highest position that a finished claim has taken from the lane:
 * - Positions come from one sequence without cache, so a row with a lower position drew it before the row at `top` did, and that
 *   one was committed before the claim began.
 * - Whoever draws a position for `ready` holds a lock on that table from before the statement runs until after the transaction can
 *   be seen to have ended. So every transaction that may still bring a row up to `top` is among those that hold the lock when it is
 *   looked at after the claim. No clock and no timeout comes in: a commit that hangs holds its lock.
 * - Once all of these are gone, a read with a snapshot of its own sees what they left. The floor rises to just before the first row
 *   it sees: rows that a claim under way has locked or deleted are still seen.
 * Beyond that, everything up to the floors is swept slowly, a slice at a time, for a row that must not be there.
 */
export class Floors {
  private mark: Mark | undefined;
  private slice = FIRST_SLICE;
  private turn = 0;

  constructor(private readonly parts: FloorsParts) {}

  /** One step; asks the database nothing when nothing was taken since the last. Throws UNAVAILABLE. */
  async raise(connections: Connections): Promise<Raised> {
    const { lanes } = this.parts;
    const generation = lanes.generation;
    const taken = lanes.worthRaising();
    if (this.mark !== undefined && this.mark.generation !== generation) this.mark = undefined;
    let raised = 0;
    if (this.mark !== undefined || taken.length > 0) {
      const rows = await connections.query<{ writer: string }>(WRITERS);
      const writers = new Set(rows.map(({ writer }) => writer));
      const passed = this.mark !== undefined && ![...this.mark.writers].some((writer) => writers.has(writer));
      if (passed) raised += await this.settle(connections, this.mark!);
      if (this.mark === undefined && taken.length > 0) this.mark = { generation, lanes: taken, writers };
      if (this.mark?.writers.size === 0) raised += await this.settle(connections, this.mark);
    }
    return { raised, breached: await this.sweep(connections) };
  }

  private async settle(connections: Connections, mark: Mark): Promise<number> {
    const rows = await connections.query<{ pos: number | null }>(FIRST_IN_LANES, [
      plainArray(mark.lanes.map(({ lane }) => lane.queueId)),
      plainArray(mark.lanes.map(({ lane }) => lane.rank)),
      plainArray(mark.lanes.map(({ lane }) => lane.floor)),
      plainArray(mark.lanes.map(({ top }) => top)),
    ]);
    this.mark = undefined;
    if (mark.generation !== this.parts.lanes.generation) return 0;
    mark.lanes.forEach(({ lane, top }, index) => {
      const first = rows[index]!.pos;
      this.parts.lanes.raise(lane, first === null ? top : first - 1);
    });
    return mark.lanes.length;
  }

  private async sweep(connections: Connections): Promise<number> {
    const { lanes, log, onBreach } = this.parts;
    const unswept = lanes.unswept();
    const lane = unswept[this.turn++ % unswept.length];
    if (lane === undefined) return 0;
    const { generation } = lanes;
    const to = Math.min(lane.floor, lane.swept + this.slice);
    const started = performance.now();
    const [found] = await connections.query<{ pos: number | null }>(FIRST_IN_LANES, [
      plainArray([lane.queueId]),
      plainArray([lane.rank]),
      plainArray([lane.swept]),
      plainArray([to]),
    ]);
    this.pace(performance.now() - started);
    if (generation !== lanes.generation) return 0;
    if (found!.pos === null) {
      lanes.swept(lane, to);
      return 0;
    }
    log.error(
      { queueId: lane.queueId, rank: lane.rank, pos: found!.pos, floor: lane.floor },
      'a floor had passed a job',
    );
    lanes.lower(lane, found!.pos);
    onBreach(lane.queueId);
    return 1;
  }

  private pace(took: number): void {
    if (took < SHORT_MS) this.slice = Math.min(MOST_SLICE, this.slice * 2);
    else if (took > LONG_MS) this.slice = Math.max(LEAST_SLICE, this.slice / 2);
  }
}

// Reads the lock table: no privilege is needed for it, whoever the writers are.
const WRITERS: Statement = {
  name: 'floors-writers',
  text: `select distinct virtualtransaction as writer from pg_locks
where locktype = 'relation' and relation = 'ready'::regclass and mode = 'RowExclusiveLock' and granted
  and database = (select oid from pg_database where datname = current_database())`,
};

// One probe of ready's primary key for each lane; walks the dead entries between floor and top. Locks nothing.
const FIRST_IN_LANES: Statement = {
  name: 'floors-first',
  text: `select (
  select r.pos::float8 from ready r
  where r.queue_id = lane.queue_id and r.rank = lane.rank and r.pos > lane.after and r.pos <= lane.until
  order by r.pos
  limit 1) as pos
from unnest($1::int[], $2::smallint[], $3::bigint[], $4::bigint[]) with ordinality as lane(queue_id, rank, after, until, n)
order by lane.n`,
};
