import { isUtf8 } from 'node:buffer';
import { describeJsonError } from './json-error.js';
import { isTooDeep, MAX_DEPTH } from './json-text.js';

export const UTF8_HINT = 'must be valid UTF-8';
const BOM_HINT = 'must not begin with a byte order mark';
const DEPTH_HINT = `must be at most ${MAX_DEPTH} levels deep`;

/** Text parsed, or what is wrong with it: a predicate such as `must be JSON: unexpected "}" at position 17`. */
export type Parsed = { readonly value: unknown; readonly fault?: undefined } | { readonly fault: string };

/** Parses JSON text of any kind of value, after a look at its depth: JSON.parse may recurse. */
export function parseJson(text: string): Parsed {
  if (isTooDeep(text)) return { fault: DEPTH_HINT };
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { fault: text.startsWith('\ufeff') ? BOM_HINT : `must be JSON: ${describeJsonError(text)}` };
  }
}

/** What is wrong with text as a JSON value, in words that follow the field's name; undefined when nothing is. */
export function checkJsonText(text: string): string | undefined {
  return parseJson(text).fault;
}

/** The same for bytes, which must be UTF-8 without a byte order mark. */
export function checkJsonBytes(bytes: Buffer): string | undefined {
  return checkUtf8(bytes) ?? checkJsonText(bytes.toString('utf8'));
}

/** What is wrong with bytes as text: they are replaced by nothing and refused when they are not UTF-8. */
export function checkUtf8(bytes: Buffer): string | undefined {
  if (!isUtf8(bytes)) return UTF8_HINT;
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? BOM_HINT : undefined;
}
