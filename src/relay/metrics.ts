import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { Sample } from './outbox.js';

/** Between which the relay stands. */
export type Side = 'database' | 'stint';

export type RelayMetrics = ReturnType<typeof createRelayMetrics>;

/** Every instrument of a relay, in a registry of their own; docs/relay.md says what each means. */
export function createRelayMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'stint_' });
  return {
    ...outboxInstruments(registers),
    ...sideInstruments(registers),
    /** The text of a scrape and its media type. */
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  };
}

function outboxInstruments(registers: Registry[]) {
  const lag = new Gauge({
    name: 'stint_relay_lag_seconds',
    help: 'Age of the oldest row that waits, by the clock of its database',
    registers,
  });
  const waiting = new Gauge({
    name: 'stint_relay_waiting_rows',
    help: 'Rows that wait to be sent; counted to 100,000',
    registers,
  });
  const parked = new Gauge({
    name: 'stint_relay_parked_rows',
    help: 'Rows set aside since Stint will not have them; counted to 100,000',
    registers,
  });
  const sent = new Counter({
    name: 'stint_relay_sent_rows_total',
    help: 'Rows that Stint has taken; deduplicated: it had them before',
    labelNames: ['deduplicated'] as const,
    registers,
  });
  const set = new Counter({ name: 'stint_relay_parkings_total', help: 'Rows that this relay has parked', registers });
  for (const deduplicated of ['true', 'false']) sent.inc({ deduplicated }, 0);
  return {
    sample: (sample: Sample): void => {
      lag.set(sample.lag);
      waiting.set(sample.waiting);
      parked.set(sample.parked);
    },
    sent: (rows: number, deduplicated: number): void => {
      sent.inc({ deduplicated: 'true' }, deduplicated);
      sent.inc({ deduplicated: 'false' }, rows - deduplicated);
    },
    parked: (rows: number): void => set.inc(rows),
  };
}

function sideInstruments(registers: Registry[]) {
  const reachable = new Gauge({
    name: 'stint_relay_reachable',
    help: '1 while this side answers as it should',
    labelNames: ['side'] as const,
    registers,
  });
  const failures = new Counter({
    name: 'stint_relay_failures_total',
    help: 'Tries that failed for this side',
    labelNames: ['side'] as const,
    registers,
  });
  const listening = new Gauge({
    name: 'stint_relay_listening',
    help: '1 while LISTEN is heard, 0 while the relay lives by polling',
    registers,
  });
  for (const side of ['database', 'stint']) {
    reachable.set({ side }, 0);
    failures.inc({ side }, 0);
  }
  return {
    reachable: (side: Side, ok: boolean): void => reachable.set({ side }, ok ? 1 : 0),
    failure: (side: Side): void => failures.inc({ side }),
    listening: (ok: boolean): void => listening.set(ok ? 1 : 0),
  };
}
