// Walks over JSON text by position. All loops, no recursion: the depth of what a caller sends never reaches our stack.

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** How deep arrays and objects may lie within one another. */
export const MAX_DEPTH = 512;

/** Whether brackets lie deeper than `MAX_DEPTH`; right for any valid prefix, so it holds before JSON.parse as well. */
export function isTooDeep(text: string): boolean {
  if (text.length <= MAX_DEPTH) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfString(text, at) - 1;
    } else if (isOpening(code)) {
      if (++depth > MAX_DEPTH) return true;
    } else if (isClosing(code)) {
      depth--;
    }
  }
  return false;
}

/** The position after the white space that begins at `at`. */
export function skipSpace(text: string, at: number): number {
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** The position after the string whose quote is at `at`; the text's end when it is not closed. */
export function endOfString(text: string, at: number): number {
  for (let quote = text.indexOf('"', at + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let first = quote;
    while (text.charCodeAt(first - 1) === BACKSLASH) first--;
    if ((quote - first) % 2 === 0) return quote + 1;
  }
  return text.length;
}

/** The position after the value that begins at `at`, in text that is valid JSON. */
export function endOfValue(text: string, at: number): number {
  const code = text.charCodeAt(at);
  if (code === QUOTE) return endOfString(text, at);
  return isOpening(code) ? endOfBracket(text, at) : endOfWord(text, at);
}

function endOfBracket(text: string, at: number): number {
  let depth = 0;
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at) - 1;
    else if (isOpening(code)) depth++;
    else if (isClosing(code) && --depth === 0) return at + 1;
  }
  return at;
}

function endOfWord(text: string, at: number): number {
  for (; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x2c || isClosing(code) || isSpace(code)) return at;
  }
  return at;
}

function isOpening(code: number): boolean {
  return code === 0x7b || code === 0x5b;
}

function isClosing(code: number): boolean {
  return code === 0x7d || code === 0x5d;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}
