import { Counter, Gauge, type Registry } from 'prom-client';

export interface PoolState {
  readonly name: string;
  readonly total: number;
  readonly idle: number;
  readonly waiting: number;
}

/** Of the connections to the database. */
export function databaseInstruments(registers: Registry[]) {
  const connections = new Gauge({
    name: 'stint_pool_connections',
    help: 'Database connections',
    labelNames: ['pool', 'state'] as const,
    registers,
  });
  const waiting = new Gauge({
    name: 'stint_pool_waiting',
    help: 'Statements waiting for a connection',
    labelNames: ['pool'] as const,
    registers,
  });
  const calls = new Counter({
    name: 'stint_database_calls_total',
    help: 'Round trips to the database',
    labelNames: ['kind'] as const,
    registers,
  });
  const healthy = new Gauge({
    name: 'stint_notifications_healthy',
    help: '1 while LISTEN is heard, 0 while the service lives on its safety poll',
    registers,
  });
  // Until it is known: a service that does not listen at all is not unhealthy.
  healthy.remove();
  return {
    pool: (state: PoolState): void => {
      connections.set({ pool: state.name, state: 'total' }, state.total);
      connections.set({ pool: state.name, state: 'idle' }, state.idle);
      waiting.set({ pool: state.name }, state.waiting);
    },
    databaseCalls: (kind: string, count = 1): void => calls.inc({ kind }, count),
    notificationsHealthy: (ok: boolean): void => healthy.set(ok ? 1 : 0),
  };
}
