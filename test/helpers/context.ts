import { v7 } from 'uuid';
import { Departure } from '../../src/core/departure.js';
import type { Caller, Context, Tenant } from '../../src/core/operation.js';

/** A caller with all rights of a tenant, or an administrator. */
export function callerOf(tenant: Tenant | undefined, more: Partial<Caller> = {}): Caller {
  return {
    kind: 'key',
    id: v7(),
    name: 'test',
    secretHash: undefined,
    scopes: new Set(tenant === undefined ? ['admin'] : ['enqueue', 'work', 'read', 'manage', 'tick']),
    queues: undefined,
    limits: {},
    expiresAt: undefined,
    tenant,
    ...more,
  };
}

/** What an operation is given, for a caller whom nothing limits. */
export function contextOf<Engine>(
  engine: Engine,
  tenant: Tenant | undefined,
  more: Partial<Context<Engine>> = {},
): Context<Engine> {
  return {
    engine,
    caller: callerOf(tenant),
    tenant: tenant as Tenant,
    departure: new Departure(),
    requestId: 'test',
    address: '127.0.0.1',
    traceHeaders: undefined,
    mayUse: () => true,
    spendJobs: () => () => undefined,
    park: () => () => undefined,
    acted: () => undefined,
    idled: () => undefined,
    ...more,
  };
}
