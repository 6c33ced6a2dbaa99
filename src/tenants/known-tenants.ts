import type { Eventual } from '../core/eventual.js';
import type { TenantLimits } from '../core/limits.js';
import { idAndName } from '../core/names.js';
import type { Tenant } from '../core/operation.js';
import { plainArray, textArray } from '../db/literals.js';
import type { Connections, Statement } from '../db/pool.js';
import { ServiceError } from '../errors.js';
import { type Finding, LookUps } from './look-ups.js';
import { suspended } from './suspended.js';

interface TenantRow {
  readonly id: string;
  readonly name: string;
  readonly autoCreateQueues: boolean;
  readonly limits: TenantLimits;
  readonly suspended: boolean;
}

/** Tenants by what a token calls them, as the database has them (`LookUps`). */
export class KnownTenants {
  private readonly lookUps: LookUps<string, Tenant | ServiceError>;

  constructor(private readonly connections: Connections) {
    this.lookUps = new LookUps((given) => this.ask(given));
  }

  /**
   * The tenant of that id or name, or UNAUTHENTICATED when there is none, PERMISSION_DENIED when it is suspended.
   *
   * @throws ServiceError UNAVAILABLE
   */
  find(idOrName: string): Eventual<Tenant | ServiceError> {
    return this.lookUps.find(idOrName, idOrName);
  }

  /** The same, from the database. */
  again(idOrName: string): Promise<Tenant | ServiceError> {
    return this.lookUps.findAnew(idOrName, idOrName);
  }

  /** Drops what is known: a tenant has changed. */
  forget(): void {
    this.lookUps.forget();
  }

  private async ask(given: readonly string[]): Promise<Finding<Tenant | ServiceError>[]> {
    const wanted = given.map(idAndName);
    const ids = wanted.flatMap(([id]) => (id === null ? [] : [id]));
    const names = wanted.flatMap(([, name]) => (name === null ? [] : [name]));
    const rows = await this.connections.query<TenantRow>(FIND, [plainArray(ids), textArray(names)]);
    const byText = new Map(rows.flatMap((row) => [[row.id, row] as const, [row.name, row] as const]));
    return wanted.map(([id, name]) => judge(byText.get(id ?? name!)));
  }
}

function judge(row: TenantRow | undefined): Finding<Tenant | ServiceError> {
  if (row === undefined) {
    return { value: new ServiceError('UNAUTHENTICATED', 'the token names no tenant of this service'), good: false };
  }
  const { suspended: isSuspended, ...tenant } = row;
  return isSuspended ? { value: suspended(), good: false } : { value: tenant, good: true };
}

// Look-ups on the primary key and tenant_name; locks nothing.
const FIND: Statement = {
  name: 'tenants-find',
  text: `select id, name, auto_create_queues as "autoCreateQueues", limits, suspended_at is not null as suspended
from tenant
where id = any($1::uuid[]) and closed_at is null
union
select id, name, auto_create_queues, limits, suspended_at is not null
from tenant
where name = any($2::text[]) and closed_at is null`,
};
