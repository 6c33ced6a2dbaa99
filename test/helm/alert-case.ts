/** Series, minute by minute in the notation of promtool, and which alerts are to fire at the minute given. */
export interface AlertCase {
  readonly alert: string;
  readonly when: string;
  readonly series: readonly string[];
  readonly minute: number;
  /** Labels of each. */
  readonly firing: readonly string[];
}

/** Labels of two instances of the service. */
export const A = 'job="stint",instance="a"';
export const B = 'job="stint",instance="b"';

/** A case in which it fires and one in which it does not. */
export function pair(
  alert: string,
  fires: Omit<AlertCase, 'alert'>,
  silent: Omit<AlertCase, 'alert' | 'firing'>,
): readonly AlertCase[] {
  return [
    { alert, ...fires },
    { alert, ...silent, firing: [] },
  ];
}
