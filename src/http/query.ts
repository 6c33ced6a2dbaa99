import { ServiceError } from '../errors.js';

/**
 * The query parameters of a request's target; a name given more than once has all its values. Stricter than
 * URLSearchParams, which replaces what it cannot read.
 * @throws INVALID_ARGUMENT for a malformed escape and for bytes that must be escaped in a URL.
 */
export function parseQuery(target: string): Readonly<Record<string, string | string[]>> {
  const start = target.indexOf('?');
  if (start < 0) return NONE;
  const parameters = Object.create(null) as Record<string, string | string[]>;
  for (const pair of target.slice(start + 1).split('&')) {
    if (pair === '') continue;
    const [name, value] = splitPair(pair);
    const before = parameters[name];
    parameters[name] = before === undefined ? value : [before, value].flat();
  }
  return parameters;
}

const NONE: Record<string, never> = Object.freeze(Object.create(null) as Record<string, never>);

function splitPair(pair: string): [name: string, value: string] {
  const equals = pair.indexOf('=');
  if (equals < 0) return [unescape(pair), ''];
  return [unescape(pair.slice(0, equals)), unescape(pair.slice(equals + 1))];
}

function unescape(text: string): string {
  try {
    if (/^[\x21-\x7e]*$/.test(text)) return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
  }
  throw new ServiceError('INVALID_ARGUMENT', 'the query holds bytes that are not UTF-8 in percent-encoding');
}
