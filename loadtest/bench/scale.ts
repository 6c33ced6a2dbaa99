/** How long and how large a run is. */
export interface Scale {
  readonly quick: boolean;
  /** Of one measurement. */
  readonly seconds: number;
  /** Of load before one, not measured. */
  readonly warmSeconds: number;
  /** Of the interleaved measurements of which the median is taken. */
  readonly rounds: number;
  /** The numbers of connections among which the best one for the bare SQL cycle is looked for. */
  readonly connections: readonly number[];
  /** Rows of a stock that is a million in a full run. */
  readonly million: number;
  /** A time that matters by itself, in seconds: as given in a full run. */
  readonly long: (seconds: number) => number;
}

export const FULL: Scale = {
  quick: false,
  seconds: 10,
  warmSeconds: 3,
  rounds: 3,
  connections: [1, 2, 4, 8],
  million: 1_000_000,
  long: (seconds) => seconds,
};

export const QUICK: Scale = {
  quick: true,
  seconds: 2,
  warmSeconds: 1,
  rounds: 1,
  connections: [2, 4],
  million: 50_000,
  long: (seconds) => Math.max(2, seconds / 30),
};

/** The same with measurements of another length. */
export function withSeconds(scale: Scale, seconds: number): Scale {
  return { ...scale, seconds, warmSeconds: Math.min(scale.warmSeconds, seconds / 2) };
}
