/** A rule that did not hold: what it says, of what, and what was seen. */
export interface Breach {
  readonly rule: string;
  /** A job's id, a key, a service. */
  readonly about: string;
  /** In the order of time. */
  readonly facts: readonly string[];
}
