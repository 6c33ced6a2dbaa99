/** Headers that a schedule's jobs bear beside its own: its name and, but for a run asked for, the instant. Set by `fire` in SQL alike. */
export const SCHEDULE_HEADER = 'stint-schedule';
export const INSTANT_HEADER = 'stint-fire-at';

export const FIRE_HEADERS: ReadonlySet<string> = new Set([SCHEDULE_HEADER, INSTANT_HEADER]);

const AN_INSTANT = '2026-01-01T00:00:00.000000Z';

/** The headers of a run that was asked for, as JSON text. */
export function runHeaders(headers: string | null, name: string): string {
  return JSON.stringify({ ...(JSON.parse(headers ?? '{}') as Record<string, string>), [SCHEDULE_HEADER]: name });
}

/** Bytes that these headers add to a job. */
export function fireHeadersSize(name: string): number {
  return JSON.stringify({ [SCHEDULE_HEADER]: name, [INSTANT_HEADER]: AN_INSTANT }).length;
}
