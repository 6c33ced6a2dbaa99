import type { InstantsAfter } from './timing.js';

export const MISFIRES = ['skip', 'once', 'all'] as const;
export type Misfire = (typeof MISFIRES)[number];
export const OVERLAPS = ['allow', 'skip'] as const;
export type Overlap = (typeof OVERLAPS)[number];

/** Microseconds that an instant may be late and still be on time. */
export const ON_TIME_MICROS = 15_000_000;
/** Jobs that `all` makes up for, at most. */
export const MOST_MADE_UP = 100;
/** Missed instants of one absence that are counted, at most. */
const MOST_COUNTED = 1_000;

/** A schedule that is due, at one look. Instants are microseconds since 1970 by the database's clock. */
export interface Due {
  readonly instants: InstantsAfter;
  /** The first instant that has not fired, at or before now. */
  readonly from: number;
  readonly misfire: Misfire;
  readonly overlap: Overlap;
  /** Whether its last job is scheduled, ready or leased. */
  readonly isRunning: boolean;
}

export interface Plan {
  /** Instants that make a job each, the oldest first. */
  readonly fires: readonly number[];
  /** Instants that the misfire policy has passed over: up to 1,000 are counted. */
  readonly missed: number;
  /** Instants that the overlap policy has passed over. */
  readonly skipped: number;
  /** The first instant after now. */
  readonly next: number | undefined;
}

/** Decides which of the instants up to `now` make jobs. */
export function planFires({ instants, from, misfire, overlap, isRunning }: Due, now: number): Plan {
  const { latest, count, next } = pending(instants, from, now);
  const chosen = from < now - ON_TIME_MICROS ? afterAbsence(latest, misfire, now) : latest;
  const fires = overlap === 'allow' ? chosen : chosen.slice(0, isRunning ? 0 : 1);
  return { fires, missed: count - chosen.length, skipped: chosen.length - fires.length, next };
}

function afterAbsence(latest: readonly number[], misfire: Misfire, now: number): readonly number[] {
  switch (misfire) {
    case 'skip':
      return latest.filter((at) => at >= now - ON_TIME_MICROS);
    case 'once':
      return latest.slice(-1);
    case 'all':
      return latest.slice(-MOST_MADE_UP);
  }
}

interface Pending {
  /** The latest instants up to now: all of them, or at least as many as are ever made up for. */
  readonly latest: readonly number[];
  /** How many there are in all, up to a bound. */
  readonly count: number;
  readonly next: number | undefined;
}

function pending(instants: InstantsAfter, from: number, now: number): Pending {
  const { found, isWhole, next } = walk(instants, from, now);
  if (isWhole) return { latest: found, count: found.length, next };
  return { latest: latestOf(instants, from, now), count: MOST_COUNTED, next: instants(now) };
}

interface Walk {
  readonly found: number[];
  /** False when there are more than are counted. */
  readonly isWhole: boolean;
  readonly next: number | undefined;
}

/** The instants from `first`, which is one, up to `now`; no more than are counted. */
function walk(instants: InstantsAfter, first: number | undefined, now: number): Walk {
  const found: number[] = [];
  let at = first;
  for (; at !== undefined && at <= now; at = instants(at)) {
    if (found.length === MOST_COUNTED) return { found, isWhole: false, next: undefined };
    found.push(at);
  }
  return { found, isWhole: true, next: at };
}

/** At least as many of the latest instants as are made up for, found in few steps where thousands lie before them. */
function latestOf(instants: InstantsAfter, from: number, now: number): number[] {
  let [tooEarly, tooLate] = [from, now];
  let best: number[] = [];
  for (let span = MOST_MADE_UP * 1_000_000; tooLate - tooEarly > 1; span *= 2) {
    const start = Math.max(now - span, Math.floor((tooEarly + tooLate) / 2));
    const { found, isWhole } = walk(instants, instants(start), now);
    if (!isWhole) {
      tooEarly = start;
      continue;
    }
    best = found;
    if (found.length >= MOST_MADE_UP) break;
    tooLate = start;
  }
  return best;
}
