import { timingSafeEqual } from 'node:crypto';
import type { Eventual } from '../core/eventual.js';
import type { KeyLimits, TenantLimits } from '../core/limits.js';
import type { Caller, Scope } from '../core/operation.js';
import type { Presented } from '../core/presented.js';
import { QueuePatterns } from '../core/queue-patterns.js';
import { plainArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import { type Finding, LookUps } from './look-ups.js';
import { keyIdOf } from './secret.js';
import { suspended } from './suspended.js';

interface KeyRow {
  readonly keyId: string;
  readonly keyName: string;
  readonly secretHash: Buffer;
  readonly previousHash: Buffer | null;
  readonly scopes: readonly Scope[];
  readonly queues: readonly string[] | null;
  readonly keyLimits: KeyLimits;
  /** Milliseconds since 1970. */
  readonly expiresAt: number | null;
  readonly previousUntil: number | null;
  /** By the database's clock when it was asked. */
  readonly now: number;
  readonly tenantId: string | null;
  readonly tenantName: string | null;
  readonly autoCreateQueues: boolean | null;
  readonly tenantLimits: TenantLimits | null;
  readonly suspended: boolean | null;
}

interface Question {
  readonly keyId: string;
  readonly hash: Buffer;
}

/** Whose secret it is, or why it lets nobody in. */
export type Verdict = Caller | ServiceError;

/** API keys as the database has them (`LookUps`). */
export class KnownKeys {
  private readonly lookUps: LookUps<Question, Verdict>;
  private used = new Set<string>();

  constructor(private readonly connections: Connections) {
    this.lookUps = new LookUps((questions) => this.ask(questions));
  }

  /**
   * Whose secret it is, or UNAUTHENTICATED when it is unknown, expired or revoked, PERMISSION_DENIED when its tenant is suspended.
   * What does not have a secret's form is not asked about.
   *
   * @throws ServiceError UNAVAILABLE
   */
  find({ secret, hash }: Omit<Presented, 'authorization'>): Eventual<Verdict> {
    const keyId = keyIdOf(secret);
    return keyId === undefined ? REFUSED : this.lookUps.find(idOf(hash), { keyId, hash });
  }

  /** Whose secret it is, if that is known without asking the database. */
  remembered({ hash }: Pick<Presented, 'hash'>): Caller | undefined {
    return this.lookUps.remembered(idOf(hash)) as Caller | undefined;
  }

  /** What has become of a caller who was let in: the same as `find`, from the database. */
  async again({ id, secretHash }: Caller): Promise<Verdict> {
    return secretHash === undefined
      ? REFUSED
      : this.lookUps.findAnew(idOf(secretHash), { keyId: id, hash: secretHash });
  }

  /** Drops what is known: a key or a tenant has changed. */
  forget(): void {
    this.lookUps.forget();
  }

  /** Ids of the keys that were used since this was asked last. */
  takeUsed(): readonly string[] {
    const { used } = this;
    this.used = new Set();
    return [...used];
  }

  /** How many answers are kept. */
  get size(): number {
    return this.lookUps.size;
  }

  private async ask(questions: readonly Question[]): Promise<Finding<Verdict>[]> {
    const ids = plainArray(questions.map(({ keyId }) => keyId));
    const hashes = plainArray(questions.map(({ hash }) => hash.toString('hex')));
    const rows = await this.connections.query<KeyRow>(FIND, [ids, hashes]);
    const byId = new Map(rows.map((row) => [row.keyId, row]));
    return questions.map(({ keyId, hash }) => this.judge(byId.get(keyId), hash));
  }

  private judge(row: KeyRow | undefined, hash: Buffer): Finding<Verdict> {
    // The statement has compared them too; this says whose question the row answers, in constant time and with something in any case.
    const isCurrent = timingSafeEqual(row?.secretHash ?? NOBODY, hash);
    const isPrevious = timingSafeEqual(row?.previousHash ?? NOBODY, hash);
    if (row === undefined || !(isCurrent || isPrevious)) return { value: REFUSED, good: false };
    const expiresAt = least(row.expiresAt, isCurrent ? null : row.previousUntil);
    const goodFor = expiresAt === undefined ? undefined : expiresAt - row.now;
    if (goodFor !== undefined && goodFor <= 0) return { value: REFUSED, good: false };
    if (row.suspended === true) return { value: suspended(), good: false };
    this.used.add(row.keyId);
    return { value: callerOf(row, hash, expiresAt), good: true, goodFor };
  }
}

/** A hash that no secret has. */
const NOBODY = Buffer.alloc(32);

const REFUSED = new ServiceError('UNAUTHENTICATED', 'the API key is unknown, expired or revoked');

function idOf(hash: Buffer): string {
  return hash.toString('latin1');
}

function least(a: number | null, b: number | null): number | undefined {
  return a === null ? (b ?? undefined) : Math.min(a, b ?? a);
}

function callerOf(row: KeyRow, secretHash: Buffer, expiresAt: number | undefined): Caller {
  const { keyId, keyName, scopes, queues, keyLimits, tenantId, tenantName, autoCreateQueues, tenantLimits } = row;
  return {
    kind: 'key',
    id: keyId,
    name: keyName,
    secretHash,
    scopes: new Set(scopes),
    queues: queues === null ? undefined : new QueuePatterns(queues),
    limits: keyLimits,
    expiresAt,
    tenant:
      tenantId === null
        ? undefined
        : { id: tenantId, name: tenantName!, autoCreateQueues: autoCreateQueues!, limits: tenantLimits! },
  };
}

// The one statement that looks before a tenant is known: it says whose key it is. Look-ups on primary keys; locks nothing. A key whose
// secret is another's is not read out, so that a wrong secret takes as long as an unknown key (measured: 6 % longer otherwise).
const FIND: Statement = {
  name: 'keys-find',
  text: `select k.id as "keyId", k.name as "keyName", k.secret_hash as "secretHash", k.previous_hash as "previousHash", k.scopes,
  k.queues, k.limits as "keyLimits", (extract(epoch from k.expires_at) * 1000)::float8 as "expiresAt",
  (extract(epoch from k.previous_until) * 1000)::float8 as "previousUntil",
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
  t.id as "tenantId", t.name as "tenantName", t.auto_create_queues as "autoCreateQueues", t.limits as "tenantLimits",
  t.suspended_at is not null as suspended
from api_key k
left join tenant t on t.id = k.tenant_id
where k.id = any($1::uuid[]) and k.revoked_at is null and t.closed_at is null
  and (encode(k.secret_hash, 'hex') = any($2::text[]) or encode(k.previous_hash, 'hex') = any($2::text[]))`,
};
