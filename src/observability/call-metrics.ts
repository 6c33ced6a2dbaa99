import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Bounds of the buckets of every time, in seconds. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

type Transport = 'http' | 'grpc';

/** Of the calls that come in. */
export function callInstruments(registers: Registry[]) {
  const seconds = new Histogram({
    name: 'stint_operation_seconds',
    help: 'Time spent on a call, without the time a long poll sat idle',
    labelNames: ['operation', 'transport'] as const,
    buckets: SECONDS,
    registers,
  });
  const waited = new Counter({
    name: 'stint_operation_wait_seconds_total',
    help: 'Time long polls sat idle',
    labelNames: ['operation', 'transport'] as const,
    registers,
  });
  const calls = new Counter({
    name: 'stint_operations_total',
    help: 'Calls by outcome',
    labelNames: ['operation', 'transport', 'code'] as const,
    registers,
  });
  const parked = new Gauge({ name: 'stint_parked_leases', help: 'Leases that wait for a job', registers });
  const streams = new Gauge({
    name: 'stint_open_streams',
    help: 'Streams that are open: of workers, and of KEDA',
    registers,
  });
  const refused = new Counter({
    name: 'stint_refused_acts_total',
    help: 'Administrative acts refused for want of a right; those beyond a bound are not in the audit log',
    labelNames: ['recorded'] as const,
    registers,
  });
  return {
    refusedAct: (recorded: boolean): void => refused.inc({ recorded: String(recorded) }),
    openStreams: (count: number): void => streams.set(count),
    parkedLeases: (count: number): void => parked.set(count),
    /** One call and its outcome. `busySeconds` leaves out the time a long poll sat idle. */
    operation: (operation: string, transport: Transport, code: string, busySeconds: number): void => {
      seconds.observe({ operation, transport }, busySeconds);
      calls.inc({ operation, transport, code });
    },
    /** The time one call sat idle, in seconds. */
    operationWaited: (operation: string, transport: Transport, idleSeconds: number): void =>
      waited.inc({ operation, transport }, idleSeconds),
  };
}
