/** Microseconds since 1970 of a timestamp as answers have it: UTC, six digits. */
export function microseconds(text: string): number {
  const digits = /\.(\d{6})Z$/.exec(text)?.[1];
  if (digits === undefined) throw new Error(`not a timestamp of the service: ${text}`);
  return Date.parse(`${text.slice(0, -8)}Z`) * 1_000 + Number(digits);
}
