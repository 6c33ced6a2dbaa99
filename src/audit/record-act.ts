import { v7 } from 'uuid';
import type { AdminContext, Caller } from '../core/operation.js';
import type { Connection, Statement } from '../db/pool.js';
import type { Engine } from '../hotpath/engine.js';

export interface NewAct {
  /** Name of the operation. */
  readonly action: string;
  /** What it is done to, for instance `queue mail`. */
  readonly target: string;
  /** Id of the tenant in whose log it is; the caller's unless given, null outside any tenant. */
  readonly tenantId?: string | null;
  /** JSON text in the form of REST (core/encode.ts), without secrets. */
  readonly before?: string | undefined;
  readonly after?: string | undefined;
}

/** Who acts, in which tenant, and from where, so that it can be kept until the act is carried out. */
export interface By {
  readonly actor: Pick<Caller, 'kind' | 'id' | 'name'>;
  /** Null outside any tenant. */
  readonly tenantId: string | null;
  readonly requestId: string;
  readonly address: string;
}

type Calling = Pick<AdminContext<Engine>, 'caller' | 'requestId' | 'address'>;

export function byOf({ caller, requestId, address }: Calling): By {
  const { kind, id, name, tenant } = caller;
  return { actor: { kind, id, name }, tenantId: tenant?.id ?? null, requestId, address };
}

/**
 * Writes an act into the audit log and tells the context. To be called within the transaction that carries the act out, so that
 * there is no act without its row and no row without its act.
 */
export async function recordAct(
  connection: Pick<Connection, 'query'>,
  context: Calling & Pick<AdminContext<Engine>, 'acted'>,
  act: NewAct,
): Promise<void> {
  await writeEvent(connection, byOf(context), { ...act, refused: false });
  const { action, target, before, after } = act;
  context.acted({ action, target, before, after });
}

/** Writes one row. */
export async function writeEvent(
  connection: Pick<Connection, 'query'>,
  { actor, requestId, address, ...by }: By,
  { action, target, tenantId = by.tenantId, refused, before, after }: NewAct & { readonly refused: boolean },
): Promise<void> {
  await connection.query(WRITE, [
    v7(),
    tenantId,
    action,
    target,
    refused,
    actor.kind,
    actor.id,
    actor.name,
    before ?? null,
    after ?? null,
    requestId,
    address,
  ]);
}

// May run beside everything. An id is a UUID v7 made of `at` to the microsecond (the fraction of its millisecond in the twelve
// bits after the version) and the random end of $1: the order of ids is that of time by the database's clock.
const WRITE: Statement = {
  name: 'audit-write',
  text: `with clock as materialized (select clock_timestamp() as at),
instant as (
  select at, (extract(epoch from at) * 1000000)::bigint as micros from clock
)
insert into audit_event (id, at, tenant_id, action, target, refused, actor_kind, actor_id, actor_name, before, after, request_id, address)
select (lpad(to_hex(micros / 1000), 12, '0') || '7' || lpad(to_hex(micros % 1000 * 4096 / 1000), 3, '0') || right($1::text, 17))::uuid,
  at, $2::uuid, $3::text, $4::text, $5::boolean, $6::text, $7::text, $8::text, $9::jsonb, $10::jsonb, $11::text, $12::text
from instant`,
};
