import { skipSpace } from './json-text.js';

const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORD = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma' | 'end';

/**
 * Says where text stops being JSON, since JSON.parse does not always: `unexpected "}" at position 17` or `unexpected
 * end`. For text that JSON.parse has refused; positions count characters from 0.
 */
export function describeJsonError(text: string): string {
  const at = firstFault(text);
  if (at >= text.length) return 'unexpected end';
  const found = String.fromCodePoint(text.codePointAt(at)!);
  return `unexpected ${JSON.stringify(found)} at position ${at}`;
}

function firstFault(text: string): number {
  const closers: string[] = [];
  let expected: Expected = 'value';
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const next = step(text, at, expected);
    if (next === undefined) return at;
    if ('fault' in next) return next.fault;
    if (next.open !== undefined) closers.push(next.open);
    if (next.close !== undefined && closers.pop() !== next.close) return at;
    expected = next.expected === 'comma' && closers.length === 0 ? 'end' : next.expected;
    if (next.comma === true) expected = closers.at(-1) === '}' ? 'key' : 'value';
    at = next.at;
  }
  return text.length;
}

interface Step {
  readonly at: number;
  readonly expected: Expected;
  readonly open?: string;
  readonly close?: string;
  readonly comma?: true;
}

function step(text: string, at: number, expected: Expected): Step | { readonly fault: number } | undefined {
  const character = text[at];
  switch (expected) {
    case 'key or }':
      if (character === '}') return { at: at + 1, expected: 'comma', close: '}' };
      return character === '"' ? stringStep(text, at, 'colon') : undefined;
    case 'key':
      return character === '"' ? stringStep(text, at, 'colon') : undefined;
    case 'colon':
      return character === ':' ? { at: at + 1, expected: 'value' } : undefined;
    case 'comma':
      if (character === ',') return { at: at + 1, expected: 'value', comma: true };
      return character === '}' || character === ']' ? { at: at + 1, expected: 'comma', close: character } : undefined;
    case 'value or ]':
      return character === ']' ? { at: at + 1, expected: 'comma', close: ']' } : valueStep(text, at);
    case 'value':
      return valueStep(text, at);
    case 'end':
      return undefined;
  }
}

function valueStep(text: string, at: number): Step | { readonly fault: number } | undefined {
  const character = text[at];
  if (character === '{') return { at: at + 1, expected: 'key or }', open: '}' };
  if (character === '[') return { at: at + 1, expected: 'value or ]', open: ']' };
  if (character === '"') return stringStep(text, at, 'comma');
  const end = match(WORD, text, at);
  return end === at ? undefined : { at: end, expected: 'comma' };
}

function stringStep(text: string, at: number, expected: Expected): Step | { readonly fault: number } {
  for (let end = at + 1; end < text.length;) {
    const code = text.charCodeAt(end);
    if (code === 0x22) return { at: end + 1, expected };
    const next = code === 0x5c ? match(ESCAPE, text, end) : end + 1;
    if (next === end || code < 0x20) return { fault: end };
    end = next;
  }
  return { fault: text.length };
}

function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
