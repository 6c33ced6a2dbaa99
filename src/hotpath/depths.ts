import type { Connections, Statement } from '../db/pool.js';

/** How much work a queue has. */
export interface Depth {
  /** Undefined when there is no open queue of that name; everything else is 0 then. */
  readonly queueId: number | undefined;
  /** Jobs that could be leased now: ready, or scheduled and due. Those of a paused queue could not. */
  readonly waiting: number;
  readonly leased: number;
  /** Seconds that the first of those jobs has waited; 0 when none waits, and when it was not asked for. */
  readonly oldestAge: number;
}

export interface DepthOf {
  readonly tenantId: string;
  readonly name: string;
  /** Whether the age is wanted, too: it takes a look at the beginning of each lane. */
  readonly aged: boolean;
}

const SHARED_MS = 1_000;

/**
 * Reads how much work queues have. All that is asked in one turn goes in one statement, for all tenants, and a queue that is asked for
 * twice is read once.
 */
export class Depths {
  readonly #recent = new Map<string, { readonly at: number; readonly depth: Promise<Depth> }>();
  /** Look-ups that have not been sent. */
  #wanted = new Map<string, Wanted>();

  constructor(private readonly connections: Pick<Connections, 'query'>) {}

  /** As of this moment, or of a read within the last second. */
  recent(of: DepthOf): Promise<Depth> {
    const known = this.#recent.get(keyOf(of));
    return known !== undefined && known.at > performance.now() - SHARED_MS ? known.depth : this.now(of);
  }

  /** As of a snapshot that is taken after the call. */
  now(of: DepthOf): Promise<Depth> {
    const key = keyOf(of);
    const begun = this.#wanted.get(key);
    if (begun !== undefined) return begun.promise;
    let settle!: Pick<Wanted, 'resolve' | 'reject'>;
    const promise = new Promise<Depth>((resolve, reject) => (settle = { resolve, reject }));
    if (this.#wanted.size === 0) setImmediate(() => void this.#send());
    this.#wanted.set(key, { of, promise, ...settle });
    this.#remember(key, promise);
    return promise;
  }

  async #send(): Promise<void> {
    const all = [...this.#wanted.values()];
    this.#wanted = new Map();
    try {
      const rows = await this.connections.query<Depth & { readonly place: number }>(DEPTHS, [
        all.map(({ of }) => of.tenantId),
        all.map(({ of }) => of.name),
        all.map(({ of }) => of.aged),
      ]);
      const found = new Map(rows.map(({ place, ...depth }) => [place, depth]));
      all.forEach(({ resolve }, index) => resolve(found.get(index + 1) ?? NONE));
    } catch (error) {
      for (const { reject } of all) reject(error);
    }
  }

  /** The map is in the order of time, so what is too old stands in front. */
  #remember(key: string, depth: Promise<Depth>): void {
    const at = performance.now();
    for (const [old, entry] of this.#recent) {
      if (entry.at > at - SHARED_MS) break;
      this.#recent.delete(old);
    }
    this.#recent.delete(key);
    this.#recent.set(key, { at, depth });
    depth.catch(() => {
      if (this.#recent.get(key)?.depth === depth) this.#recent.delete(key);
    });
  }
}

interface Wanted {
  readonly of: DepthOf;
  readonly promise: Promise<Depth>;
  readonly resolve: (depth: Depth) => void;
  readonly reject: (error: unknown) => void;
}

const NONE: Depth = { queueId: undefined, waiting: 0, leased: 0, oldestAge: 0 };

function keyOf({ tenantId, name, aged }: DepthOf): string {
  return `${tenantId} ${name} ${aged}`;
}

// Reads only, of each name its tenant's open queue (index queue_name). The counts are sums of changes, exact at every snapshot (index
// queue_count_queue); while a purge is under way they still hold its rows, so ready is counted beyond the cut, lane by lane in the primary
// key. Due rows that are not promoted yet are few, and found by the index scheduled_queue. The age is that of the first row of each lane.
const DEPTHS: Statement = {
  name: 'queue-depths',
  text: `select wanted.place::float8 as place, q.id as "queueId",
  (case when q.paused_at is not null then 0 else due.jobs + case when q.cut = 0 then counts.ready else (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = q.id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = q.id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select coalesce(sum(jobs.n), 0)
    from lane
    cross join lateral (
      select count(*) as n from ready r where r.queue_id = q.id and r.rank = lane.rank and r.pos > q.cut) jobs) end end
  )::float8 as waiting,
  counts.leased::float8 as leased,
  (case when wanted.aged and q.paused_at is null then coalesce(extract(epoch from greatest(statement_timestamp() - least(due.since, (
    with recursive lane(rank) as (
      (select r.rank from ready r where r.queue_id = q.id order by r.rank limit 1)
      union all
      select (select r.rank from ready r where r.queue_id = q.id and r.rank > lane.rank order by r.rank limit 1)
      from lane
      where lane.rank is not null)
    select min(head.ready_at)
    from lane
    cross join lateral (
      select r.ready_at from ready r
      where r.queue_id = q.id and r.rank = lane.rank and r.pos > q.cut
      order by r.pos limit 1) head)), interval '0')), 0) else 0 end)::float8 as "oldestAge"
from unnest($1::uuid[], $2::text[], $3::boolean[]) with ordinality as wanted(tenant_id, name, aged, place)
join queue q on q.tenant_id = wanted.tenant_id and q.name = wanted.name and q.closed_at is null
cross join lateral (
  select coalesce(sum(c.ready), 0) as ready, coalesce(sum(c.leased), 0) as leased
  from queue_count c
  where c.queue_id = q.id) counts
cross join lateral (
  select count(*) as jobs, min(s.due_at) as since
  from scheduled s
  where s.queue_id = q.id and s.due_at <= statement_timestamp() and s.pos > q.cut) due`,
};
