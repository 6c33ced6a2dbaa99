/** What one background chore did in a round. */
export interface ChoreResult {
  readonly name: string;
  /** Its counts, summed up over its runs. */
  readonly did: Readonly<Record<string, number>>;
  /** Whether nothing more is due. */
  readonly isDone: boolean;
  readonly failed: boolean;
}

/** The background chores, for whoever asks for a round of them. */
export interface Chores {
  /** Runs all of them, each up to so many times. */
  round(mostRuns: number): Promise<readonly ChoreResult[]>;
}
