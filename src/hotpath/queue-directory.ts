import { setTimeout as pause } from 'node:timers/promises';
import type { Tenant } from '../core/operation.js';
import { ServiceError } from '../errors.js';
import type { Connections, Statement } from '../db/pool.js';
import { type QueueQuota, refuseBeyond } from './queue-quota.js';

/** What the service needs to know of a queue before a statement runs. What a statement decides, it reads itself. */
export interface KnownQueue {
  readonly id: number;
  readonly tenantId: string;
  readonly name: string;
  readonly maxPayloadBytes: number | null;
  readonly idempotencyWindow: number;
  /** Whether it has a bound on its leases, at once or per time. */
  readonly limited: boolean;
  /** Milliseconds between two leases at its rate limit. */
  readonly rateInterval: number | null;
}

/** A name that is neither found nor free belongs to a queue of which it is being found out whether it can be deleted. */
const LOOKS = 20;
const LOOK_AGAIN_MS = 50;

const FRESH_MS = 10_000;
const MOST = 100_000;

/**
 * Queues in memory, by tenant and name and by id. An entry is dropped when its queue changes (here, or on another instance,
 * which says so), and looked up again after 10 s; unknown names are never remembered.
 */
export class QueueDirectory {
  private readonly byName = new Map<string, { readonly queue: KnownQueue; readonly at: number }>();
  private readonly byNumber = new Map<number, KnownQueue>();
  /** Look-ups that have not been sent. */
  private wanted = new Map<string, LookUp>();

  constructor(private readonly connections: Connections) {}

  /** The tenant's open queue of that name if it is known without asking the database. */
  known(tenantId: string, name: string): KnownQueue | undefined {
    const entry = this.byName.get(keyOf(tenantId, name));
    return entry !== undefined && Date.now() - entry.at < FRESH_MS ? entry.queue : undefined;
  }

  /** The tenant's open queue of that name, or undefined. */
  async find(tenantId: string, name: string): Promise<KnownQueue | undefined> {
    const known = this.known(tenantId, name);
    if (known !== undefined) return known;
    const queue = await this.lookUp(tenantId, name);
    if (queue === undefined) this.byName.delete(keyOf(tenantId, name));
    return queue;
  }

  /** The same; throws NOT_FOUND. */
  async get(tenantId: string, name: string): Promise<KnownQueue> {
    const queue = await this.find(tenantId, name);
    if (queue === undefined)
      throw new ServiceError('NOT_FOUND', 'no such queue', { fields: [{ field: 'queue', message: 'is not known' }] });
    return queue;
  }

  /**
   * The same; makes the queue when there is none. Throws QUOTA_EXCEEDED when the tenant may not have all of `together`, which are to be
   * made after it and it itself; UNAVAILABLE while a queue of that name is being deleted.
   */
  async findOrCreate(
    { id: tenantId, limits }: Pick<Tenant, 'id' | 'limits'>,
    name: string,
    together: readonly string[] = [name],
  ): Promise<KnownQueue> {
    for (let tries = 1; ; tries += 1) {
      const found = await this.find(tenantId, name);
      if (found !== undefined) return found;
      const made = await this.create({ tenantId, most: limits.queues }, name, together);
      if (made.length === 0 && tries > LOOKS) {
        throw new ServiceError('UNAVAILABLE', 'the queue is being deleted', { retryAfter: 1 });
      }
      if (made.length === 0) await pause(LOOK_AGAIN_MS);
    }
  }

  /** The queue of that id if it is the tenant's, open or not; asks the database for ids this instance has not met. */
  async byId(tenantId: string, id: number): Promise<KnownQueue | undefined> {
    let queue = this.byNumber.get(id);
    if (queue === undefined) {
      [queue] = await this.connections.query<KnownQueue>(BY_ID, [id]);
      if (queue !== undefined) this.byNumber.set(id, queue);
    }
    return queue?.tenantId === tenantId ? queue : undefined;
  }

  /** The name of the tenant's queue of that id if it is known without asking the database. */
  nameOf(tenantId: string, id: number): string | undefined {
    const queue = this.byNumber.get(id);
    return queue?.tenantId === tenantId ? queue.name : undefined;
  }

  /** Whether the queue of that id is known to have a bound on its leases. */
  limits(id: number): Pick<KnownQueue, 'limited' | 'rateInterval'> {
    return this.byNumber.get(id) ?? NO_LIMITS;
  }

  /** Looks many names up at once, whatever is remembered: for leases that wait for queues that do not exist yet. */
  async findMany(names: readonly { readonly tenantId: string; readonly name: string }[]): Promise<KnownQueue[]> {
    const queues = await this.connections.query<KnownQueue>(FIND_MANY, [
      names.map((n) => n.tenantId),
      names.map((n) => n.name),
    ]);
    for (const queue of queues) this.remember(queue);
    return queues;
  }

  /** Drops what is remembered of these queues. */
  forget(ids: readonly number[] | 'all'): void {
    if (ids === 'all') {
      this.byNumber.clear();
      this.byName.clear();
      return;
    }
    for (const id of ids) {
      const queue = this.byNumber.get(id);
      this.byNumber.delete(id);
      if (queue !== undefined) this.byName.delete(keyOf(queue.tenantId, queue.name));
    }
  }

  /** All look-ups of a turn go in one query: a thousand workers that wait for what is not there ask anew at one moment. */
  private lookUp(tenantId: string, name: string): Promise<KnownQueue | undefined> {
    const key = keyOf(tenantId, name);
    const begun = this.wanted.get(key);
    if (begun !== undefined) return begun.promise;
    let settle!: Pick<LookUp, 'resolve' | 'reject'>;
    const promise = new Promise<KnownQueue | undefined>((resolve, reject) => (settle = { resolve, reject }));
    if (this.wanted.size === 0) setImmediate(() => void this.sendLookUps());
    this.wanted.set(key, { tenantId, name, promise, ...settle });
    return promise;
  }

  private async sendLookUps(): Promise<void> {
    const { wanted } = this;
    this.wanted = new Map();
    try {
      const found = new Map(
        (await this.findMany([...wanted.values()])).map((queue) => [keyOf(queue.tenantId, queue.name), queue]),
      );
      for (const [key, { resolve }] of wanted) resolve(found.get(key));
    } catch (error) {
      for (const { reject } of wanted.values()) reject(error);
    }
  }

  private create({ tenantId, most }: QueueQuota, name: string, together: readonly string[]): Promise<unknown[]> {
    if (most === undefined) return this.connections.query(CREATE, [tenantId, name]);
    return this.connections.transaction(async (connection) => {
      await refuseBeyond(connection, { tenantId, most }, together);
      return connection.query(CREATE, [tenantId, name]);
    });
  }

  private remember(queue: KnownQueue): void {
    if (this.byNumber.size >= MOST) {
      this.byNumber.clear();
      this.byName.clear();
    }
    this.byNumber.set(queue.id, queue);
    this.byName.set(keyOf(queue.tenantId, queue.name), { queue, at: Date.now() });
  }
}

interface LookUp {
  readonly tenantId: string;
  readonly name: string;
  readonly promise: Promise<KnownQueue | undefined>;
  readonly resolve: (queue: KnownQueue | undefined) => void;
  readonly reject: (error: unknown) => void;
}

const NO_LIMITS = { limited: false, rateInterval: null };

function keyOf(tenantId: string, name: string): string {
  return `${tenantId} ${name}`;
}

// All three are single index look-ups on queue_name or the primary key; CREATE may run beside itself.
const FIND_MANY: Statement = {
  name: 'queue-find-many',
  text: `select q.id, q.tenant_id as "tenantId", q.name, q.max_payload_bytes as "maxPayloadBytes", q.idempotency_window::float8 as "idempotencyWindow",
  (q.max_in_flight is not null or q.rate_limit_jobs is not null) as limited, q.rate_limit_per::float8 / q.rate_limit_jobs as "rateInterval"
from unnest($1::uuid[], $2::text[]) as wanted(tenant_id, name)
join queue q on q.tenant_id = wanted.tenant_id and q.name = wanted.name and q.closed_at is null`,
};

const BY_ID: Statement = {
  name: 'queue-by-id',
  text: `select id, tenant_id as "tenantId", name, max_payload_bytes as "maxPayloadBytes", idempotency_window::float8 as "idempotencyWindow",
  (max_in_flight is not null or rate_limit_jobs is not null) as limited, rate_limit_per::float8 / rate_limit_jobs as "rateInterval"
from queue where id = $1::int`,
};

const CREATE: Statement = {
  name: 'queue-create',
  text: `insert into queue (tenant_id, name)
select id, $2 from tenant where id = $1::uuid and closed_at is null
on conflict do nothing
returning id`,
};
