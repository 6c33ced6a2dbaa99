import { Random } from './random.js';

export const FAULTS = [
  'kill-service',
  'restart-service',
  'freeze-service',
  'kill-postgres',
  'kill-backend',
  'kill-worker',
  'freeze-worker',
  'reset-clients',
  'mute-clients',
  'slow-clients',
  'reset-database',
  'mute-database',
  'slow-database',
  'read-only',
  'terminate-all',
  'terminate-listener',
  'no-connections',
  'held-snapshot',
  'full-disk',
  'step-clock',
] as const;
export type FaultKind = (typeof FAULTS)[number];

export interface Fault {
  readonly kind: FaultKind;
  /** Milliseconds after the start of the schedule. */
  readonly at: number;
  /** Milliseconds; 0 for a blow. */
  readonly duration: number;
  /** Which service or worker; of no meaning to faults of the database. */
  readonly target: number;
  /** What else has to be chosen, from 0 to below 1. */
  readonly twist: number;
}

export interface ScheduleOptions {
  readonly seed: number;
  readonly seconds: number;
  /** Faults in all. */
  readonly count: number;
  readonly workers: number;
}

/** In every schedule, however short. */
const ALWAYS: readonly FaultKind[] = ['kill-service', 'kill-postgres'];
const FIRST_MS = 1_500;

/** Milliseconds, both ends included. A frozen process sleeps longer than any lease lasts. */
const DURATIONS: Readonly<Partial<Record<FaultKind, readonly [least: number, most: number]>>> = {
  'freeze-service': [5_500, 7_000],
  'freeze-worker': [5_500, 7_000],
  'mute-clients': [1_000, 6_500],
  'slow-clients': [2_000, 5_000],
  'mute-database': [1_000, 6_500],
  'slow-database': [2_000, 5_000],
  'read-only': [1_000, 4_000],
  'no-connections': [3_000, 3_000],
  'held-snapshot': [5_000, 12_000],
  'full-disk': [1_000, 4_000],
};

/** The faults of a seed, in the order of their times. */
export function scheduleOf({ seed, seconds, count, workers }: ScheduleOptions): Fault[] {
  const random = Random.for(seed, 'schedule');
  const end = seconds * 1_000;
  const schedule = kindsOf(random, count).map((kind, index): Fault => {
    const [least, most] = DURATIONS[kind] ?? [0, 0];
    const slot = Math.round(FIRST_MS + ((index + random.next() * 0.8) * (end - FIRST_MS)) / count);
    const duration = random.between(least, most);
    // One that lasts begins early enough to last for its time.
    const at = Math.max(FIRST_MS, Math.min(slot, end - duration));
    const target = random.between(0, 15) % (kind.endsWith('worker') ? workers : 2);
    return { kind, at, duration: Math.min(duration, end - at), target, twist: random.next() };
  });
  return schedule.sort((a, b) => a.at - b.at);
}

/** All kinds in turn, in an order of the seed's, so that a few seeds have seen all of them; the ones that must be there first. */
function kindsOf(random: Random, count: number): FaultKind[] {
  const kinds: FaultKind[] = [];
  const others = FAULTS.filter((kind) => !ALWAYS.includes(kind));
  while (kinds.length < count) kinds.push(...ALWAYS, ...random.shuffled(others));
  return random.shuffled(kinds.slice(0, count));
}
