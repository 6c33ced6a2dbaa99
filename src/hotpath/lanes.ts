/** A stretch of a queue's claim order: after (`fromRank`, `fromPos`) and before every row of `toRank`. */
export interface Stretch {
  readonly fromRank: number;
  readonly fromPos: number;
  readonly toRank: number;
}

/** Where a claim begins in one queue. */
export interface Start {
  readonly stretches: readonly Stretch[];
  /** Whether it leaves out rows that may be there: then finding little says nothing. */
  readonly shortened: boolean;
}

/** The rows a claim has taken from one queue: the highest position and the number by rank. */
export type Taken = ReadonlyMap<number, { readonly pos: number; readonly rows: number }>;

export interface Lane {
  readonly queueId: number;
  readonly rank: number;
  /** No row at or before it is there, or ever will be. */
  floor: number;
  /** The last row of the newest claim that got all it asked for; at least the floor. */
  cursor: number;
  /** The highest position that a claim of this instance has taken. */
  top: number;
  /** Rows taken since the floor was last raised. */
  rows: number;
  /** How far it has been made sure that nothing stands at or before the floor, and whether that is still to be done. */
  swept: number;
  unswept: boolean;
}

interface QueueLanes {
  readonly lanes: Map<number, Lane>;
  /** The last claim got all it asked for. */
  filled: boolean;
  /** When a claim has last begun at the floors, in milliseconds of this process. */
  fromFloors: number;
}

/** Bounds of all ranks, which are −1000 to 1000. */
const [LEAST_RANK, MOST_RANK] = [-32_768, 32_767];
/** How long claims may go on from their cursors: what appears behind one is found after this, at the latest. */
const FROM_FLOORS_EVERY_MS = 200;
const MOST_LANES = 32;
const MOST_QUEUES = 20_000;
/** As many dead entries cost a claim less than looking for a better floor costs. */
const WORTH_RAISING = 100;

/**
 * From where on claims look for rows. A lane is one rank of one queue; its rows are claimed in the order of their positions, so
 * under somebody's old snapshot its beginning is a growing stretch of dead index entries, 0.2 µs each. Invariants:
 * - A claim looks at everything except what lies at or before the floor (or, for a while, the cursor) of lanes this instance knows.
 *   Lanes it does not know need no discovery: they lie in the stretches between.
 * - A floor rises only to where no row is or can come to be (`raiseFloors` proves it).
 * - A cursor may pass rows that are not visible yet, or locked by a claim that is rolled back. So claims go on from cursors only
 *   while they get all they ask for, and every 200 ms one begins at the floors; emptiness is believed only from there.
 * - What is known here is never needed: forgetting it costs one slow claim.
 */
export class Lanes {
  private readonly queues = new Map<number, QueueLanes>();
  /** Counts what was forgotten: what was found out before is not to be written down after. */
  generation = 0;

  /** Where the next claim of the queue begins. */
  start(queueId: number): Start {
    const queue = this.queues.get(queueId);
    if (queue === undefined) return { stretches: stretchesOf([], 'floor'), shortened: false };
    const now = performance.now();
    const lanes = inOrder(queue);
    const fromCursors = queue.filled && now - queue.fromFloors < FROM_FLOORS_EVERY_MS;
    if (!fromCursors) {
      queue.fromFloors = now;
      for (const lane of lanes) lane.cursor = lane.floor;
    }
    return {
      stretches: stretchesOf(lanes, fromCursors ? 'cursor' : 'floor'),
      shortened: fromCursors && lanes.some(({ cursor, floor }) => cursor > floor),
    };
  }

  /** The queue without what is certainly gone. */
  fromFloors(queueId: number): readonly Stretch[] {
    const queue = this.queues.get(queueId);
    return stretchesOf(queue === undefined ? [] : inOrder(queue), 'floor');
  }

  /** What a claim took from the queue; `filled` when that was all it asked for. */
  learn(queueId: number, taken: Taken, filled: boolean): void {
    if (taken.size === 0 && !this.queues.has(queueId)) return;
    const queue = this.queueOf(queueId);
    queue.filled = filled;
    for (const [rank, { pos, rows }] of taken) {
      const lane = laneOf(queue, { queueId, rank });
      lane.top = Math.max(lane.top, pos);
      lane.rows += rows;
      if (filled) lane.cursor = Math.max(lane.cursor, pos);
    }
  }

  /** The lanes from which so much was taken that a better floor is worth looking for, and how far each was taken. */
  worthRaising(): { readonly lane: Lane; readonly top: number }[] {
    const found: { lane: Lane; top: number }[] = [];
    for (const { lanes } of this.queues.values()) {
      for (const lane of lanes.values()) if (lane.rows >= WORTH_RAISING) found.push({ lane, top: lane.top });
    }
    return found;
  }

  /** The lanes whose floor has risen since they were last swept to the end. */
  unswept(): Lane[] {
    return [...this.queues.values()].flatMap(({ lanes }) => [...lanes.values()].filter((lane) => lane.unswept));
  }

  /** Puts a floor where it was proved to be. */
  raise(lane: Lane, floor: number): void {
    lane.rows = 0;
    if (floor <= lane.floor) return;
    lane.floor = floor;
    lane.cursor = Math.max(lane.cursor, floor);
    lane.unswept = true;
  }

  /** Nothing stands in the lane up to `pos`. */
  swept(lane: Lane, pos: number): void {
    const done = pos >= lane.floor;
    lane.swept = done ? 0 : pos;
    lane.unswept = !done;
  }

  /** Takes back a floor that has passed the row at `pos`, which must never be. */
  lower(lane: Lane, pos: number): void {
    lane.floor = pos - 1;
    lane.cursor = pos - 1;
    this.swept(lane, pos - 1);
  }

  /** Forgets everything: positions may have been taken back, as by a failover to a server that was behind. */
  forget(): void {
    this.generation += 1;
    this.queues.clear();
  }

  private queueOf(queueId: number): QueueLanes {
    let queue = this.queues.get(queueId);
    if (queue === undefined) {
      dropOldest(this.queues, MOST_QUEUES);
      this.queues.set(queueId, (queue = { lanes: new Map(), filled: false, fromFloors: -Infinity }));
    }
    return queue;
  }
}

function laneOf({ lanes }: QueueLanes, { queueId, rank }: Pick<Lane, 'queueId' | 'rank'>): Lane {
  let lane = lanes.get(rank);
  if (lane === undefined) {
    dropOldest(lanes, MOST_LANES);
    lanes.set(rank, (lane = { queueId, rank, floor: 0, cursor: 0, top: 0, rows: 0, swept: 0, unswept: false }));
  }
  return lane;
}

function dropOldest(map: Map<number, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size < most) return;
    map.delete(key);
  }
}

const inOrder = ({ lanes }: QueueLanes): Lane[] => [...lanes.values()].sort((a, b) => a.rank - b.rank);

/** Before the first lane, and from each lane's position to the beginning of the next. */
function stretchesOf(lanes: readonly Lane[], place: 'floor' | 'cursor'): Stretch[] {
  const skipping = lanes.filter((lane) => lane[place] > 0);
  const starts = [{ fromRank: LEAST_RANK, fromPos: 0 }].concat(
    skipping.map((lane) => ({ fromRank: lane.rank, fromPos: lane[place] })),
  );
  return starts.map((start, index) => ({ ...start, toRank: skipping[index]?.rank ?? MOST_RANK }));
}
