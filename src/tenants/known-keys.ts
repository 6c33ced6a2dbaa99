import { timingSafeEqual } from 'node:crypto';
import type { Eventual } from '../core/eventual.js';
import type { Caller, Scope } from '../core/operation.js';
import type { Presented } from '../core/presented.js';
import { plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import { keyIdOf } from './secret.js';

const FRESH_MS = 5_000;
const MOST = 10_000;
const MOST_AT_ONCE = 1_000;

interface KeyRow {
  readonly keyId: string;
  readonly keyName: string;
  readonly secretHash: Buffer;
  readonly scopes: readonly Scope[];
  readonly millisecondsLeft: number | null;
  readonly tenantId: string | null;
  readonly tenantName: string | null;
  readonly autoCreateQueues: boolean | null;
}

interface Entry {
  readonly caller: Caller | undefined;
  readonly keyId: string;
  /** When it is looked up again. */
  readonly until: number;
}

interface Lookup {
  readonly keyId: string;
  readonly hash: Buffer;
  readonly promise: Promise<Caller | undefined>;
  readonly resolve: (caller: Caller | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * API keys as the database has them, at most 5 s old, so that a key revoked on another instance is refused within that time.
 * What is kept is bounded, good keys and bad ones apart: a flood of bad ones drives no good one out. All look-ups of a moment
 * go in one query, one query at a time: bad keys cost the database next to nothing, however many.
 */
export class KnownKeys {
  private readonly good = new Map<string, Entry>();
  private readonly bad = new Map<string, Entry>();
  private lookups = new Map<string, Lookup>();
  private readonly underWay = new Map<string, Lookup>();
  private readonly forgotten = new Set<string>();
  private running = false;

  constructor(private readonly connections: Connections) {}

  /**
   * Whose secret it is; undefined when it is unknown, expired or revoked. What does not have a secret's
   * form is not asked about.
   *
   * @throws ServiceError UNAVAILABLE
   */
  find({ secret, hash }: Omit<Presented, 'authorization'>): Eventual<Caller | undefined> {
    const id = idOf(hash);
    const entry = this.good.get(id) ?? this.bad.get(id);
    if (entry !== undefined && entry.until > performance.now()) return entry.caller;
    const keyId = keyIdOf(secret);
    return keyId === undefined ? undefined : this.lookUp(id, { keyId, hash });
  }

  /** Whose secret it is, if that is known without asking the database. */
  remembered({ hash }: Pick<Presented, 'hash'>): Caller | undefined {
    const entry = this.good.get(idOf(hash));
    return entry !== undefined && entry.until > performance.now() ? entry.caller : undefined;
  }

  /** Drops what is known of a key: it was revoked. */
  forget(keyId: string): void {
    for (const [id, entry] of this.good) if (entry.keyId === keyId) this.good.delete(id);
    if (this.running) this.forgotten.add(keyId);
  }

  private lookUp(id: string, key: Pick<Lookup, 'keyId' | 'hash'>): Promise<Caller | undefined> {
    const begun = this.lookups.get(id) ?? (this.forgotten.has(key.keyId) ? undefined : this.underWay.get(id));
    if (begun !== undefined) return begun.promise;
    let settle!: Pick<Lookup, 'resolve' | 'reject'>;
    const promise = new Promise<Caller | undefined>((resolve, reject) => (settle = { resolve, reject }));
    this.lookups.set(id, { ...key, promise, ...settle });
    if (!this.running) void this.run();
    return promise;
  }

  private async run(): Promise<void> {
    this.running = true;
    while (this.lookups.size > 0) {
      for (const [id, lookup] of this.lookups) {
        if (this.underWay.size === MOST_AT_ONCE) break;
        this.underWay.set(id, lookup);
        this.lookups.delete(id);
      }
      await this.runBatch();
      this.underWay.clear();
      this.forgotten.clear();
    }
    this.running = false;
  }

  private async runBatch(): Promise<void> {
    const began = performance.now();
    try {
      const ids = [...this.underWay.values()].map(({ keyId }) => keyId);
      const rows = await this.connections.query<KeyRow>(FIND, [plainArray(ids)]);
      const byId = new Map(rows.map((row) => [row.keyId, row]));
      for (const [id, lookup] of this.underWay)
        lookup.resolve(this.settle(id, lookup, { row: byId.get(lookup.keyId), began }));
    } catch (error) {
      for (const lookup of this.underWay.values()) lookup.reject(error);
    }
  }

  private settle(
    id: string,
    { keyId, hash }: Lookup,
    read: { row: KeyRow | undefined; began: number },
  ): Caller | undefined {
    const { row, began } = read;
    const caller = row !== undefined && timingSafeEqual(row.secretHash, hash) ? callerOf(row) : undefined;
    this.good.delete(id);
    this.bad.delete(id);
    // Revoked while it was read: what was read may be from before.
    if (!this.forgotten.has(keyId)) {
      const left = caller === undefined ? FRESH_MS : Math.min(FRESH_MS, row?.millisecondsLeft ?? FRESH_MS);
      keep(caller === undefined ? this.bad : this.good, id, { caller, keyId, until: began + left });
    }
    return caller;
  }
}

function idOf(hash: Buffer): string {
  return hash.toString('latin1');
}

/** Drops what has been kept longest when there is too much. */
function keep(entries: Map<string, Entry>, id: string, entry: Entry): void {
  if (entries.size >= MOST) entries.delete(entries.keys().next().value!);
  entries.set(id, entry);
}

function callerOf(row: KeyRow): Caller {
  const { keyId, keyName, scopes, tenantId, tenantName, autoCreateQueues } = row;
  const tenant =
    tenantId === null ? undefined : { id: tenantId, name: tenantName!, autoCreateQueues: autoCreateQueues === true };
  return { keyId, keyName, scopes: new Set(scopes), tenant };
}

// The one statement that looks before a tenant is known: it says whose key it is. Look-ups on primary keys; locks nothing.
const FIND: Statement = {
  name: 'keys-find',
  text: `select k.id as "keyId", k.name as "keyName", k.secret_hash as "secretHash", k.scopes,
  (extract(epoch from k.expires_at - clock_timestamp()) * 1000)::float8 as "millisecondsLeft",
  t.id as "tenantId", t.name as "tenantName", t.auto_create_queues as "autoCreateQueues"
from api_key k
left join tenant t on t.id = k.tenant_id
where k.id = any($1::uuid[])
  and k.revoked_at is null
  and (k.expires_at is null or k.expires_at > clock_timestamp())`,
};
