import { Type } from 'typebox';
import { invalidField } from '../errors.js';

/** How many items a page holds when the caller does not say. */
export const DEFAULT_PAGE_LIMIT = 100;

const LONGEST_CURSOR = 1024;

/** The inputs that every list takes. */
export const pageInput = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, description: `Items on a page; ${DEFAULT_PAGE_LIMIT} unless given.` }),
  ),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: LONGEST_CURSOR, description: 'The `nextCursor` of the page before.' }),
  ),
};

/** Writes the place where the next page begins: the sort key of the last item shown, whole numbers and strings. */
export function encodeCursor(parts: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/**
 * Reads a cursor of `arity` parts back. A cursor is not signed: its parts are as trustworthy as any other input.
 *
 * @returns whole numbers, and strings without NUL and lone surrogates
 * @throws ServiceError INVALID_ARGUMENT about `cursor` for one that no list has given
 */
export function decodeCursor(text: string, arity: number): (string | number)[] {
  const parts = text.length > LONGEST_CURSOR ? undefined : readParts(text);
  if (parts?.length !== arity) throw invalidField('cursor', 'must be the nextCursor of an earlier page of this list');
  return parts;
}

function readParts(text: string): (string | number)[] | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.toString('base64url') !== text) return undefined;
  try {
    const parts: unknown = JSON.parse(bytes.toString('utf8'));
    return Array.isArray(parts) && parts.every(isPart) ? parts : undefined;
  } catch {
    return undefined;
  }
}

function isPart(part: unknown): part is string | number {
  return typeof part === 'string' ? !/\0|\p{Surrogate}/u.test(part) : Number.isSafeInteger(part);
}
