import type { FieldError } from '../errors.js';

const LONGEST_NAME = 80;
const PLAIN_NAME = /^[\w.-]{1,80}$/;

/** A name from a request as it may stand in an error: quoted unless it is plain, and cut when it is long. */
export function shownName(name: string): string {
  if (PLAIN_NAME.test(name)) return name;
  return JSON.stringify(name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name);
}

/** The path of a field inside a field or an item: `jobs`, `[1]` and `delay` make `jobs[1].delay`. */
export function joinPath(outer: string | number, inner: string): string {
  const head = typeof outer === 'number' ? `[${outer}]` : shownName(outer);
  return inner === '' || inner.startsWith('[') ? head + inner : `${head}.${inner}`;
}

/** A fault within a field or an item, seen from outside it. */
export function under(outer: string | number, fault: FieldError): FieldError {
  return { field: joinPath(outer, fault.field), message: fault.message };
}
