import type { Registry } from 'prom-client';
import { sampledGauge, Validity } from './sampled.js';

/** Who keeps dead rows from being cleared away. */
export interface HorizonHolder {
  readonly holder: string;
  /** How many transactions have begun since. */
  readonly transactions: number;
  /** Null where the database does not say. */
  readonly seconds: number | null;
}

export interface TableSample {
  readonly table: string;
  /** Bytes of the table with what is stored beside it, and of its indexes. */
  readonly heap: number;
  readonly indexes: number;
  /** As the database estimates. */
  readonly live: number;
  readonly dead: number;
  /** Seconds since 1970; null when it never was. */
  readonly vacuumedAt: number | null;
}

export interface StorageSample {
  readonly holders: readonly HorizonHolder[];
  readonly tables: readonly TableSample[];
}

/** Of how the database keeps the service's tables: one instance at a time shows it. */
export function storageInstruments(registers: Registry[]) {
  const validity = new Validity();
  const seconds = sampledGauge(validity, {
    name: 'stint_xmin_horizon_age_seconds',
    help: 'Age of the oldest transaction that keeps dead rows from being cleared away',
    labelNames: ['holder'],
    registers,
  });
  const transactions = sampledGauge(validity, {
    name: 'stint_xmin_horizon_age_transactions',
    help: 'Transactions begun since the oldest snapshot that keeps dead rows from being cleared away',
    labelNames: ['holder'],
    registers,
  });
  const bytes = sampledGauge(validity, {
    name: 'stint_table_bytes',
    help: 'Size of a table and of its indexes',
    labelNames: ['table', 'part'],
    registers,
  });
  const rows = sampledGauge(validity, {
    name: 'stint_table_rows',
    help: 'Rows of a table by the statistics of the database',
    labelNames: ['table', 'state'],
    registers,
  });
  const vacuumed = sampledGauge(validity, {
    name: 'stint_table_vacuum_timestamp_seconds',
    help: 'When the table was last vacuumed',
    labelNames: ['table'],
    registers,
  });
  return {
    /** Replaces all of it. Shown for `milliseconds`, unless it is told again. */
    storage: ({ holders, tables }: StorageSample, milliseconds: number): void => {
      for (const instrument of [seconds, transactions, bytes, rows, vacuumed]) instrument.reset();
      for (const { holder, ...age } of holders) {
        transactions.set({ holder }, age.transactions);
        if (age.seconds !== null) seconds.set({ holder }, age.seconds);
      }
      for (const { table, heap, indexes, live, dead, vacuumedAt } of tables) {
        bytes.set({ table, part: 'heap' }, heap);
        bytes.set({ table, part: 'indexes' }, indexes);
        rows.set({ table, state: 'live' }, live);
        rows.set({ table, state: 'dead' }, dead);
        if (vacuumedAt !== null) vacuumed.set({ table }, vacuumedAt);
      }
      validity.begin(milliseconds);
    },
    /** It is for another instance to show, or not known. */
    storageUnknown: (): void => validity.end(),
  };
}
