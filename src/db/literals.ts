/**
 * Array parameters as PostgreSQL's own text form, written by hand: the driver's general writer costs several times as much
 * for the long arrays of a flush. An array in which every element is null is sent empty: `unnest` of several arrays pads the
 * shorter ones with nulls.
 */

/** For numbers, booleans and uuids, whose text needs no quoting. */
export function plainArray(values: readonly (string | number | bigint | boolean | null | undefined)[]): string {
  let text = '';
  let empty = true;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (value === null || value === undefined) {
      text += ',null';
    } else {
      empty = false;
      text += `,${String(value)}`;
    }
  }
  return empty ? '{}' : `{${text.slice(1)}}`;
}

/** For texts of any content but NUL. */
export function textArray(values: readonly (string | null | undefined)[]): string {
  let text = '';
  let empty = true;
  for (const value of values) {
    if (value === null || value === undefined) {
      text += ',null';
    } else {
      empty = false;
      text += `,"${value.includes('\\') || value.includes('"') ? value.replace(/["\\]/g, '\\$&') : value}"`;
    }
  }
  return empty ? '{}' : `{${text.slice(1)}}`;
}

/** Many byte strings as one parameter: their bytes one after the other, with where each begins (from 1) and how long it is. */
export interface Blob {
  readonly bytes: Buffer;
  readonly starts: string;
  readonly lengths: string;
}

/** Absent values get no start: `substring` of them is null. */
export function blob(values: readonly (string | Buffer | undefined)[]): Blob {
  const lengths = values.map((value) =>
    value === undefined ? 0 : typeof value === 'string' ? Buffer.byteLength(value) : value.length,
  );
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length, 0));
  const starts: (number | null)[] = [];
  let offset = 0;
  values.forEach((value, index) => {
    starts.push(value === undefined ? null : offset + 1);
    if (typeof value === 'string') bytes.write(value, offset);
    else value?.copy(bytes, offset);
    offset += lengths[index]!;
  });
  return { bytes, starts: plainArray(starts), lengths: plainArray(lengths) };
}
