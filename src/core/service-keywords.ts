import type { Ajv, ErrorObject } from 'ajv';
import { BYTES, EACH, EXCLUSIVE, NAMES, TEXT, type TextRule } from './service-schema.js';
import { describeError } from './validation-words.js';
import { InvalidItem } from './wire.js';

interface Rule {
  (data: unknown): boolean;
  errors?: Partial<ErrorObject>[];
}

const UNSTORABLE = /\0|\p{Surrogate}/u;
// eslint-disable-next-line no-control-regex -- these are what the rule is about
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

/** Gives the keywords of `service-schema.ts` their meaning. */
export function addServiceKeywords(ajv: Ajv): void {
  ajv.addKeyword({ keyword: TEXT, type: 'string', compile: (rule: TextRule) => textRule(rule) });
  ajv.addKeyword({ keyword: BYTES, compile: (rule: TextRule) => bytesRule(rule) });
  ajv.addKeyword({ keyword: NAMES, type: 'object', compile: () => namesRule() });
  ajv.addKeyword({ keyword: EXCLUSIVE, type: 'object', compile: (groups: string[][]) => exclusiveRule(groups) });
  ajv.addKeyword({ keyword: EACH, type: 'array', compile: (items: object) => eachRule(ajv, items) });
}

/** A rule that holds while `fault` finds nothing; what it finds is the error's predicate. */
function ruleOf<Data>(keyword: string, fault: (data: Data) => string | undefined) {
  const rule: Rule = (data) => {
    const message = fault(data as Data);
    if (message !== undefined) rule.errors = [{ keyword, params: { message } }];
    return message === undefined;
  };
  return rule;
}

function textRule(rule: TextRule) {
  return ruleOf<string>(TEXT, (text) => {
    if (rule.plain) {
      const unstorable = textFault(text);
      if (unstorable !== undefined) return unstorable;
    }
    if (rule.noControl && CONTROL.test(text)) return 'must not hold control characters';
    return lengthFault(rule, text, () => Buffer.byteLength(text));
  });
}

function textFault(text: string): string | undefined {
  const found = UNSTORABLE.exec(text);
  if (found === null) return undefined;
  return found[0] === '\0' ? 'must not hold the character U+0000' : 'must be valid Unicode, without lone surrogates';
}

function bytesRule(rule: TextRule) {
  return ruleOf<unknown>(BYTES, (value) => {
    if (!Buffer.isBuffer(value)) return 'must be bytes';
    return lengthFault(rule, value, () => value.length);
  });
}

function lengthFault(rule: TextRule, text: { readonly length: number }, size: () => number): string | undefined {
  const { minBytes, maxBytes } = rule;
  // A UTF-16 unit takes one to three bytes, which settles most without counting.
  const within = text.length >= minBytes && text.length * 3 <= maxBytes;
  if (within) return undefined;
  const bytes = size();
  if (bytes >= minBytes && bytes <= maxBytes) return undefined;
  if (minBytes === 0) return `must be at most ${maxBytes} bytes`;
  return maxBytes === Infinity ? `must be at least ${minBytes} bytes` : `must be ${minBytes} to ${maxBytes} bytes`;
}

function namesRule() {
  return ruleOf<object>(NAMES, (record) => {
    for (const name of Object.keys(record)) {
      const fault = textFault(name);
      if (fault !== undefined) return `has a name that ${fault}`;
    }
    return undefined;
  });
}

function exclusiveRule(groups: readonly (readonly string[])[]) {
  const rule: Rule = (data) => {
    for (const group of groups) {
      const pair = group.filter((name) => (data as Record<string, unknown>)[name] !== undefined).slice(0, 2);
      if (pair.length < 2) continue;
      rule.errors = [{ keyword: EXCLUSIVE, params: { pair } }];
      return false;
    }
    return true;
  };
  return rule;
}

function eachRule(ajv: Ajv, items: object) {
  const check = ajv.compile(items);
  return (list: unknown[]): boolean => {
    for (const [index, item] of list.entries()) {
      if (item instanceof InvalidItem || check(item)) continue;
      const [fault] = describeError(check.errors![0]!, item, 'item').fields;
      list[index] = new InvalidItem(fault.field, fault.message);
    }
    return true;
  };
}
